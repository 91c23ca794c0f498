"""Schemas shared within the process.

A schema id always names the same schema, so a fetched one stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_sfevents.pubsub.keyed_lock import KeyedLock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class SchemaCache:
    """Schemas by org and id.

    The id is a digest without the fields' `doc`, which differ between orgs.
    """

    def __init__(self) -> None:
        self._schemas: dict[tuple[str, str], str] = {}
        self._locks = KeyedLock()

    async def get(self, org_id: str, schema_id: str, fetch: Callable[[], Awaitable[str]]) -> str:
        """The schema; fetched once for all concurrent callers."""
        key = (org_id, schema_id)
        if (known := self._schemas.get(key)) is not None:
            return known
        async with self._locks.hold(key):
            if key not in self._schemas:
                self._schemas[key] = await fetch()
            return self._schemas[key]


PROCESS_SCHEMAS = SchemaCache()
