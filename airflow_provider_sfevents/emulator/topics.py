"""What a bus has on it: topics, and events ready to be published; and where it writes them down. Plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_sfevents.emulator.replay_log import StoredEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """What the bus knows of a topic.

    :param record: API name of the platform event or entity; empty for a channel.
    :param schema_id: of the newest version; empty for a channel.
    :param members: topics a channel carries.
    :param removed: whether it is no longer there; only channels go.
    """

    name: str
    kind: Literal["event", "change", "channel"]
    record: str = ""
    schema_id: str = ""
    can_publish: bool = False
    can_subscribe: bool = True
    members: tuple[str, ...] = ()
    removed: bool = False


@dataclass(frozen=True, slots=True)
class Encoded:
    """An event ready for the bus.

    :param on_channels: what these channels carry in place of the payload; None where one leaves the event out.
    """

    id: str
    schema_id: str
    payload: bytes
    on_channels: Mapping[str, bytes | None] = field(default_factory=dict)


Standing = tuple[Sequence[Topic], Sequence[tuple[str, str]], Sequence[bytes], int]
"""What does not age on a bus: topics, schemas by id, notes that say what notes have said so far, the newest place."""


class Journal(Protocol):
    """Where a bus writes down what must survive a restart."""

    def topic(self, topic: Topic) -> None: ...
    def schema(self, schema_id: str, schema_json: str) -> None: ...
    def events(self, events: Sequence[StoredEvent], note: bytes = b"") -> None: ...
    def position(self, position: int, at: float) -> None: ...
    def renumbered(
        self, position: int, events: Sequence[StoredEvent], *, old_valid: bool
    ) -> None: ...
    def sweep(self, now: float, since: float) -> None: ...


def with_member(channel: Topic, member: str) -> Topic:
    """Channel, carrying this topic too."""
    return (
        channel
        if member in channel.members
        else replace(channel, members=(*channel.members, member))
    )
