"""Change events as tests read them: decoded by the documented algorithm alone."""

from __future__ import annotations

import io
import json
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import fastavro

from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.contract.orgs import OrgUnderTest
    from tests.contract.wire import Stream

HEADER = "ChangeEventHeader"
ALL = "/data/ChangeEvents"
BITMAPS = ("changedFields", "nulledFields", "diffFields")


class Change(NamedTuple):
    """A change event, decoded by its own schema."""

    event: Any
    schema: dict[str, Any]
    record: dict[str, Any]

    @property
    def header(self) -> dict[str, Any]:
        return dict(self.record[HEADER])

    @property
    def what(self) -> tuple[str, tuple[str, ...]]:
        """Change type and record ids."""
        return self.header["changeType"], tuple(self.header["recordIds"])

    @property
    def values(self) -> dict[str, Any]:
        """Fields that are not null."""
        return {
            name: value
            for name, value in self.record.items()
            if value is not None and name != HEADER
        }

    def named(self, bitmaps: str) -> set[str]:
        """Fields named by an array of the header; compounds' members after their parent's name."""
        fields, found = self.schema["fields"], set()
        for one in self.header[bitmaps]:
            parent, _, digits = one.rpartition("-")
            bits = int(digits, 16)
            names = members(self.schema, int(parent)) if parent else [f["name"] for f in fields]
            before = f"{fields[int(parent)]['name']}." if parent else ""
            found |= {before + name for place, name in enumerate(names) if bits >> place & 1}
        return found


def members(schema: dict[str, Any], place: int) -> list[str]:
    """Members of a compound field of a schema, in order."""
    known: dict[str, list[str]] = {}
    found: list[str] = []
    for field in schema["fields"][1 : place + 1]:
        of: list[str] = []
        for branch in field["type"]:
            if isinstance(branch, dict):
                known[branch["name"]] = [member["name"] for member in branch["fields"]]
            of = known.get(branch["name"] if isinstance(branch, dict) else branch, of)
        found = of
    return found


def decoded(org: OrgUnderTest, event: Any) -> Change:
    """Decode an event by the schema that it names."""
    schema = _schema(org.client, event.event.schema_id)
    raw = io.BytesIO(event.event.payload)
    record = fastavro.schemaless_reader(raw, fastavro.parse_schema(json.loads(schema)))
    assert not raw.read(), "bytes are left over: the event is not of its own schema"
    assert isinstance(record, dict)
    return Change(event, json.loads(schema), record)


@cache
def _schema(client: Any, schema_id: str) -> str:
    return str(client.get_schema(schema_id).schema_json)


class Watch:
    """A stream of change events that began before a test's actions."""

    def __init__(self, org: OrgUnderTest, stream: Stream) -> None:
        self._org = org
        self._stream = stream
        self._pending = 1

    def until(self, *kinds: str, of: int = 1) -> list[Change]:
        """Read until each change type has come for the expected number of records, and not further.

        Changes to other records by other users are not distinguished; in an org of one's own there
        are none.
        """
        found: list[Change] = []
        missing = dict.fromkeys(kinds, of)
        while any(count > 0 for count in missing.values()):
            if not self._pending:
                self._stream.ask(num_requested=1)
            response = self._stream.read()
            self._pending = response.pending_num_requested
            for event in response.events:
                change = decoded(self._org, event)
                kind, record_ids = change.what
                missing[kind] = missing.get(kind, 0) - len(record_ids)
                found.append(change)
        return found


@contextmanager
def watched(org: OrgUnderTest, topic: str) -> Iterator[Watch]:
    """Watch a topic from now on, with credit for one event at a time, which limits the cost."""
    with org.client.subscribe(
        topic_name=topic, replay_preset=pb.CUSTOM, replay_id=org.base(), num_requested=1
    ) as stream:
        yield Watch(org, stream)
