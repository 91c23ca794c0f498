"""A managed event subscription as the org's setup has it: read over the Tooling API, since the Pub/Sub API does not tell."""

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
    from airflow_provider_sfevents.pubsub.rest.rest_calls import RestCalls
    from airflow_provider_sfevents.pubsub.rpc_calls import RpcCalls

log = logging.getLogger(__name__)


async def read_config(rest: RestCalls, reference: str) -> SubscriptionConfig:
    """Ask the org.

    :param reference: id or developer name.
    :raises ConfigurationError: there is none, or the user may not read it.
    """
    field = "Id" if is_id(check_reference(reference)) else "DeveloperName"
    query = f"SELECT Id, DeveloperName, Metadata FROM ManagedEventSubscription WHERE {field}='{reference}' LIMIT 1"  # noqa: S608 - checked
    doing = f"Reading managed event subscription {reference}"
    try:
        answer, _ = await rest.get("/tooling/query/", doing, {"q": query})
    except ConfigurationError as error:
        raise ConfigurationError(
            f"{error} Without it nobody knows of which topic the subscription is, and whether it loses events without a word "
            "(errorRecoveryReplay): give the connection's user the permission View Setup and Configuration, and the app the scope `api`."
        ) from error
    if not answer.get("records"):
        raise ConfigurationError(
            f"{doing}: the org has none with this {'id' if field == 'Id' else 'developer name'}. Create one (Setup or Tooling API, object "
            "ManagedEventSubscription, with errorRecoveryReplay EARLIEST), or correct managed_subscription."
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
    """What the setup has said, for those who may go by an answer of a while ago. Plain values; for one process."""

    def __init__(self) -> None:
        self._answers: dict[tuple[Settings, str], tuple[float, SubscriptionConfig | None]] = {}

    async def checked(
        self,
        calls: RpcCalls,
        reference: str,
        topic: str,
        *,
        allow_latest_recovery: bool,
        max_age_seconds: float,
    ) -> SubscriptionConfig | None:
        """The subscription, fit for its use; None where it cannot be read, and the user has accepted what that may mean.

        :param max_age_seconds: of an answer that is good enough; 0: the org is asked, by one API request.
        :raises ConfigurationError: it is not, or cannot be read.
        """
        key, now = (calls.settings, reference), calls.clock.monotonic()
        at, config = self._answers.pop(key, (-math.inf, None))  # put back once it is found fit
        if now - at >= max_age_seconds or (config is None and not allow_latest_recovery):
            at = now
            config = await _read(calls, reference, allow_latest_recovery=allow_latest_recovery)
        if config is not None:
            check_config(config, topic, allow_latest_recovery=allow_latest_recovery)
        self._answers[key] = at, config
        return config

    def forget(self, calls: RpcCalls, reference: str) -> None:
        """The service has refused the subscription: whatever was said of it is old."""
        self._answers.pop((calls.settings, reference), None)


PROCESS_CONFIGS = SubscriptionConfigCache()


async def _read(
    calls: RpcCalls, reference: str, *, allow_latest_recovery: bool
) -> SubscriptionConfig | None:
    try:
        async with calls.rest() as rest:
            return await read_config(rest, reference)
    except ConfigurationError as error:
        if not allow_latest_recovery:
            raise ConfigurationError(
                f"{error} Or accept it by allow_latest_recovery=True."
            ) from error
        log.warning("%s Going on all the same, as allow_latest_recovery says.", error)
        return None
