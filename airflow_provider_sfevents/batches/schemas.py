"""The schemas beside a batch: each event is decoded with its own, so each is there before the manifest is."""

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
    """Get what is not there yet. A schema that the service does not have, or refuses for good, is noted: its events go to quarantine.

    They were delivered, so they are paid for and kept as they are; whoever lands the batch again asks for the schema again.

    :raises TransportError: one cannot be had just now; that is a retry, and no quarantine.
    """
    for schema_id in sorted(set(schema_ids) - folder.schemas()):
        try:
            folder.write_schema(schema_id, await client.get_schema(schema_id))
        except ConfigurationError as error:
            log.warning("Events of schema %r will go to quarantine: %s", schema_id, error)
            folder.write_unknown_schema(schema_id, str(error))
        steps.reached(steps.SCHEMA_KEPT, schema_id)
