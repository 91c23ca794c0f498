"""Configuration of a managed event subscription, read over the Tooling API.

The Pub/Sub API does not return it.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.pubsub.managed.managed_rules import (
    SubscriptionConfig,
    check_config,
    check_reference,
    is_id,
)

if TYPE_CHECKING:
    from airflow_provider_sfevents.pubsub.auth.settings import Settings
    from airflow_provider_sfevents.pubsub.pubsub_calls import PubSubCalls
    from airflow_provider_sfevents.pubsub.rest.rest_calls import RestCalls

log = logging.getLogger(__name__)


async def read_config(rest: RestCalls, reference: str) -> SubscriptionConfig:
    """Read the configuration from the org.

    :param reference: id or developer name.
    :raises ConfigurationError: there is no such subscription, or the user may not read it.
    """
    field = "Id" if is_id(check_reference(reference)) else "DeveloperName"
    # The reference has been checked, so it cannot change the query.
    columns = "Id, DeveloperName, Metadata"
    table = "ManagedEventSubscription"
    query = f"SELECT {columns} FROM {table} WHERE {field}='{reference}' LIMIT 1"  # noqa: S608
    doing = f"Reading managed event subscription {reference}"
    try:
        answer, _ = await rest.get("/tooling/query/", doing, {"q": query})
    except ConfigurationError as error:
        raise ConfigurationError(
            f"{error} Without it the subscription's topic is unknown, and whether it may lose "
            "events silently (errorRecoveryReplay): give the connection's user the permission "
            "View Setup and Configuration, and the app the scope `api`."
        ) from error
    if not answer.get("records"):
        raise ConfigurationError(
            f"{doing}: the org has none with this {'id' if field == 'Id' else 'developer name'}. "
            "Create one (Setup or Tooling API, object ManagedEventSubscription, with "
            "errorRecoveryReplay EARLIEST), or correct managed_subscription."
        )
    record = answer["records"][0]
    metadata = record.get("Metadata") or {}
    return SubscriptionConfig(
        id=str(record["Id"]),
        developer_name=str(record["DeveloperName"]),
        topic=str(metadata.get("topicName") or ""),
        default_replay=str(metadata.get("defaultReplay") or "LATEST"),
        error_recovery_replay=str(metadata.get("errorRecoveryReplay") or "LATEST"),
        state=str(metadata.get("state") or ""),
    )


class SubscriptionConfigCache:
    """Configurations that the org returned before, for callers that accept older ones.

    Plain values; for one process.
    """

    def __init__(self) -> None:
        self._answers: dict[tuple[Settings, str], tuple[float, SubscriptionConfig | None]] = {}

    async def checked(
        self,
        calls: PubSubCalls,
        reference: str,
        topic: str,
        *,
        allow_latest_recovery: bool,
        max_age_seconds: float,
    ) -> SubscriptionConfig | None:
        """The configuration, checked for its use.

        None if it cannot be read and the user accepts that.

        :param max_age_seconds: of a cached answer that is good enough; 0: read it from the org, by
            one API request.
        :raises ConfigurationError: it does not fit, or cannot be read.
        """
        key, now = (calls.settings, reference), calls.clock.monotonic()
        at, config = self._answers.pop(key, (-math.inf, None))  # put back after the check
        if now - at >= max_age_seconds or (config is None and not allow_latest_recovery):
            at = now
            config = await _read(calls, reference, allow_latest_recovery=allow_latest_recovery)
        if config is not None:
            check_config(config, topic, allow_latest_recovery=allow_latest_recovery)
        self._answers[key] = at, config
        return config

    def forget(self, calls: PubSubCalls, reference: str) -> None:
        """Drop the cached answer, because the service has refused the subscription."""
        self._answers.pop((calls.settings, reference), None)


PROCESS_CONFIGS = SubscriptionConfigCache()


async def _read(
    calls: PubSubCalls, reference: str, *, allow_latest_recovery: bool
) -> SubscriptionConfig | None:
    try:
        async with calls.rest() as rest:
            return await read_config(rest, reference)
    except ConfigurationError as error:
        if not allow_latest_recovery:
            raise ConfigurationError(
                f"{error} Or accept this with allow_latest_recovery=True."
            ) from error
        log.warning("%s Continuing, because allow_latest_recovery is set.", error)
        return None
