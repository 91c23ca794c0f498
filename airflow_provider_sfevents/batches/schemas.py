"""Schemas beside a batch: each event is decoded with its own, so they precede the manifest."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.exceptions import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_sfevents.pubsub.client import PubSubClient
    from airflow_provider_sfevents.staging.batch_folder import BatchFolder

log = logging.getLogger(__name__)


async def keep_schemas(
    folder: BatchFolder, client: PubSubClient, schema_ids: Iterable[str]
) -> None:
    """Get the schemas that are not beside the batch yet.

    A schema that the service does not have, or refuses permanently, is recorded as unknown: its
    events go to quarantine. They were delivered and count against the allowance, so they are kept
    as they are. A run that lands the batch again requests the schema again.

    :raises TransportError: a schema is temporarily unavailable; that needs a retry, not a
        quarantine.
    """
    for schema_id in sorted(set(schema_ids) - folder.schemas()):
        try:
            folder.write_schema(schema_id, await client.get_schema(schema_id))
        except ConfigurationError as error:
            log.warning("Events of schema %r will go to quarantine: %s", schema_id, error)
            folder.write_unknown_schema(schema_id, str(error))
        steps.reached(steps.SCHEMA_KEPT, schema_id)
