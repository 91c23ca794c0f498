"""Schemas beside a batch: each event is decoded with its own, so they precede the manifest."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.exceptions import ConfigurationError, TransportError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_sfevents.batches.event_source import TopicClient
    from airflow_provider_sfevents.staging.batch_folder import BatchFolder

log = logging.getLogger(__name__)

SCHEMA_SECONDS = 10.0
"""Seconds between two requests for a schema that is unavailable, while events come."""


class EventSchemas:
    """Schemas of one batch; a schema that is beside the batch is not requested again."""

    def __init__(self, folder: BatchFolder) -> None:
        self._folder = folder
        self._kept = folder.schemas()
        self._due_at = 0.0

    async def keep_if_available(self, client: TopicClient, schema_ids: set[str]) -> None:
        """Get the schemas of a delivery; one that is unavailable is requested again later.

        The stream continues meanwhile: the manifest needs the schema, the stream does not.
        """
        if schema_ids <= self._kept or time.monotonic() < self._due_at:
            return
        try:
            await self.keep(client, schema_ids)
        except TransportError as error:
            self._due_at = time.monotonic() + SCHEMA_SECONDS
            log.warning("The fetch continues without a schema for now: %s", error)

    async def keep(self, client: TopicClient, schema_ids: set[str]) -> None:
        """Get the schemas that are not kept yet.

        :raises TransportError: as `keep_schemas`.
        """
        await keep_schemas(self._folder, client, schema_ids - self._kept)
        self._kept |= schema_ids


async def keep_schemas(folder: BatchFolder, client: TopicClient, schema_ids: Iterable[str]) -> None:
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
