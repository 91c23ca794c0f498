"""Deliveries, parts, manifests and holders for the tests of the staging area."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_sfevents.staging.lease_holder import LeaseHolder
from airflow_provider_sfevents.staging.manifest import Manifest, Part, Receipt, Run


@dataclass(frozen=True)
class Delivered:
    """Events `first` to `first + count` of a made-up bus.

    Event n has n in its replay id, and a payload of n bytes or `size`.
    """

    first: int
    count: int
    size: int | None = None
    received_at: int = 1_700_000_000_000_000

    @property
    def ids(self) -> list[str]:
        return [f"event-{n}" for n in self._numbers]

    @property
    def replay_ids(self) -> list[bytes]:
        return [replay_id(n) for n in self._numbers]

    @property
    def schema_ids(self) -> list[str]:
        return [f"schema-{n % 2}" for n in self._numbers]

    @property
    def payloads(self) -> list[bytes]:
        return [bytes(n if self.size is None else self.size) for n in self._numbers]

    @property
    def _numbers(self) -> range:
        return range(self.first, self.first + self.count)


def replay_id(number: int) -> bytes:
    return number.to_bytes(10, "big")


def part(
    start: str, end: str, first_ordinal: int, events: int, path: str = "attempts/0001/p"
) -> Part:
    return Part(
        path=path,
        start=start,
        end=end,
        first_ordinal=first_ordinal,
        events=events,
        bytes=1,
        sha256="",
        schemas=(),
    )


def manifest(
    batch_number: int = 1,
    epoch: str = "e1",
    parts: tuple[Part, ...] = (),
    created_at: str = "2026-01-01",
) -> Manifest:
    return Manifest(
        org_id="00D000000000001AAA",
        instance_url="https://acme.my.salesforce.com",
        topic="/event/Order__e",
        consumer="orders",
        epoch=epoch,
        batch_number=batch_number,
        batch_id=f"{epoch}-{batch_number}",
        position_start="earliest",
        start="earliest",
        end="0a",
        events=sum(one.events for one in parts),
        bytes=0,
        ended_by="idle_seconds",
        parts=parts,
        schemas=(),
        created_at=created_at,
    )


def receipt(batch_number: int = 1, epoch: str = "e1", written_at: str = "2026-01-01") -> Receipt:
    return Receipt(
        batch_id=f"{epoch}-{batch_number}",
        events=0,
        tables={},
        quarantined=0,
        written_at=written_at,
    )


def here() -> LeaseHolder:
    """Return the holder for the running test."""
    return LeaseHolder.here(
        Run(dag="load", run="run-1", task="fetch", try_number=2), "2026-01-01T00:00:00+00:00"
    )


def elsewhere(host: str = "worker-2") -> LeaseHolder:
    """Return a holder on another machine, which only its heartbeat shows to be alive."""
    return LeaseHolder(
        host=host,
        pid=4711,
        pid_space="another boot of another kernel",
        process_start="1",
        leased_at="2026-01-01T00:00:00+00:00",
        run=Run(dag="load", run="run-0", task="fetch", try_number=1),
    )
