"""Events of the emulated org, as one story in chapters that continue each other.

The emulator's sample as a story gives records lives: an account is created once and then updated,
and a shipment belongs to an order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typing_extensions import override

from airflow_provider_sfevents.emulator.org.org_verbs import OrgVerbs
from airflow_provider_sfevents.emulator.org.sample_org import SampleEvent, publish_sample

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow_provider_sfevents.emulator.org.org_verbs import OrgParts

_SEED = 2026


def chapter(begin: int, count: int) -> list[SampleEvent]:
    """Events after the first `begin` ones; always the same except for the times."""
    listener = _Listener()
    publish_sample(listener, begin + count, seed=_SEED)
    return listener.waited[begin:]


class _Listener(OrgVerbs):
    """An org in which nothing happens but is only taken down."""

    def __init__(self) -> None:
        self.waited: list[SampleEvent] = []

    @property
    @override
    def _parts(self) -> OrgParts:
        raise NotImplementedError

    @override
    def publish(
        self, topic: str, events: Iterable[Mapping[str, Any]], *, ids: Sequence[str] | None = None
    ) -> list[bytes]:
        self.waited += [SampleEvent(topic=topic, fields=dict(event)) for event in events]
        return []

    @override
    def change(
        self,
        entity: str,
        change_type: str,
        record_ids: str | Sequence[str],
        fields: Mapping[str, Any] | None = None,
        *,
        event_id: str | None = None,
        **header: Any,
    ) -> bytes:
        self.waited.append(
            SampleEvent(
                topic=entity,
                fields=dict(fields or {}),
                record_id=str(record_ids),
                change_type=change_type,
            )
        )
        return b""
