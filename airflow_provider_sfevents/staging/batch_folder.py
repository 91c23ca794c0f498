"""Folder of one batch: leases, staged files, schemas, manifest, receipt.

Airflow imports this in every process that parses a DAG, so Arrow is imported inside functions.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from airflow_provider_sfevents.command_lines import command_line
from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.staging import layout, leases
from airflow_provider_sfevents.staging.extra_deliveries import AttemptDeliveries, sums
from airflow_provider_sfevents.staging.manifest import Manifest, Part, Receipt
from airflow_provider_sfevents.staging.sidecar_files import Announced, Confirmed
from airflow_provider_sfevents.staging.storage import durable_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from upath import UPath

    from airflow_provider_sfevents.staging.lease_holder import LeaseHolder
    from airflow_provider_sfevents.staging.parts.part_writer import Limits, PartWriter

log = logging.getLogger(__name__)

_PART_PREFIX, _PART_SUFFIX = "part-", ".parquet"
_SCHEMA_SUFFIX = ".avsc"


class BatchFolder:
    """Folder of one batch. Nothing is cached here, because other processes write there too."""

    def __init__(self, folder: UPath, batch_id: str) -> None:
        self.folder = folder
        self.batch_id = batch_id

    @property
    def url(self) -> str:
        """URL of the folder, for people and for XCom: absolute, without a connection in it."""
        return durable_files.url(self.folder)

    @property
    def manifest_url(self) -> str:
        return durable_files.url(self.folder / layout.MANIFEST)

    def take_lease(
        self, holder: LeaseHolder, timing: leases.LeaseTiming | None = None
    ) -> leases.Lease:
        """Take the lease of the batch; blocks while another machine's unreleased lease is watched.

        :raises LeaseHeldError: another holder is alive.
        """
        lease = leases.take(self.folder, holder, timing or leases.LeaseTiming())
        try:
            self._remove_leftovers(lease.number)
        except BaseException:
            lease.release()
            raise
        return lease

    async def take_lease_in_thread(self, holder: LeaseHolder) -> leases.Lease:
        """Take the lease in a thread; it is released if the caller was cancelled in the meantime.

        :raises LeaseHeldError: another holder is alive.
        """
        lock, is_wanted = threading.Lock(), True
        made: list[leases.Lease] = []

        def take() -> leases.Lease:
            lease = self.take_lease(holder)
            with lock:
                made.append(lease)
                is_late = not is_wanted
            if is_late:
                lease.release()
            return lease

        try:
            return await asyncio.to_thread(take)
        except asyncio.CancelledError:  # the thread continues: a store may take seconds to write
            with lock:
                is_wanted = False
            for lease in made:
                lease.release()
            raise

    def writer(
        self,
        lease: leases.Lease,
        start: str,
        first_ordinal: int,
        limits: Limits | None = None,
        *,
        is_billed: bool = True,
    ) -> PartWriter:
        """Return a writer for this lease's attempt, which continues after `start`.

        :param is_billed: the lease counts the events that the writer receives
            (`Lease.note_received`); otherwise the caller counts those that cannot be written.
        """
        from airflow_provider_sfevents.staging.parts.part_writer import PartWriter

        return PartWriter(
            self.folder,
            lease=lease.number,
            start=start,
            first_ordinal=first_ordinal,
            limits=limits,
            received=lease.note_received if is_billed else None,
        )

    def parts(self) -> list[Part]:
        """Return the complete files of all attempts, by their footers.

        `chain` selects those that make up the batch.
        """
        return self._parts(sound=False)

    def sound_parts(self) -> list[Part]:
        """Return the undamaged files of all attempts, which an attempt may keep.

        Each is read through, as Spark is the next to read its rows. A damaged file is left out with
        a warning: its events are fetched again.
        """
        return self._parts(sound=True)

    def verify(self, manifest: Manifest, *, past: bool = False) -> None:
        """Read every file of a staged batch through, and compare it with the manifest.

        :param past: the position is beyond the batch, or in another epoch, so no run fetches it
            again.
        :raises StagingError: a file is missing or differs from the manifest; the message has the
            remedy.
        """
        from airflow_provider_sfevents.staging.parts.part_reader import damage

        for part in manifest.parts:
            if wrong := damage(self.folder, part):
                raise StagingError(
                    f"Staged file {self.folder / part.path} {wrong}. It was changed or removed "
                    f"after it was written. {self._way_out(manifest, past=past)}"
                )

    def _way_out(self, manifest: Manifest, *, past: bool) -> str:
        """Return the remedy for a damaged file of a staged batch."""
        if not past:
            return (
                f"Restore it; or remove {self.folder / layout.MANIFEST} (and {layout.RECEIPT} "
                "beside it, if it is there): the position has not moved, so the next run keeps the "
                "undamaged files and fetches the rest again, as long as the bus has it (72 hours)."
            )
        if layout.RECEIPT in durable_files.names(self.folder):
            return (
                "The batch landed before, and its rows stay in the table. To land it again, "
                "restore the file; otherwise mark the task as success."
            )
        back = command_line("position", "set", manifest.consumer, manifest.topic, manifest.start)
        return (
            "The position has left this batch, so no run fetches these events by itself. Restore "
            f"the file; or, as long as the bus has them (72 hours), go back before them: `{back}`; "
            "events that have landed do not land again."
        )

    def read_manifest(self) -> Manifest | None:
        return self._parse_manifest(durable_files.read(self.folder / layout.MANIFEST))

    def sound_manifest(self) -> Manifest | None:
        """Read the manifest where others can do instead; one that cannot be parsed counts as none.

        :raises StagingError: the file cannot be read.
        """
        data = durable_files.read(self.folder / layout.MANIFEST)
        try:
            return self._parse_manifest(data)
        except StagingError as error:
            log.warning("The manifest of batch %s is left out: %s", self.batch_id, error)
            return None

    def _parse_manifest(self, data: bytes | None) -> Manifest | None:
        place = str(self.folder / layout.MANIFEST)
        return Manifest.from_json(_text(data), place) if data is not None else None

    def create_manifest(self, manifest: Manifest) -> Manifest:
        """Mark the batch as staged; returns the manifest that counts: this one or an earlier one.

        :raises StagingError: it can be neither written nor read.
        """
        if durable_files.create_once(self.folder / layout.MANIFEST, manifest.to_json().encode()):
            return manifest
        existing = self.read_manifest()
        if existing is None:
            raise StagingError(
                f"{self.folder / layout.MANIFEST} existed a moment ago and is gone: another "
                "process is emptying the staging area. Keep it until its batches are committed."
            )
        return existing

    def read_receipt(self) -> Receipt | None:
        data = durable_files.read(self.folder / layout.RECEIPT)
        return (
            Receipt.from_json(_text(data), str(self.folder / layout.RECEIPT))
            if data is not None
            else None
        )

    def read_announced(self) -> Announced | None:
        """Read the last announcement of this batch by a watcher.

        A file that cannot be parsed counts as none: one more run is then started.
        """
        data = durable_files.read(self.folder / layout.ANNOUNCED)
        try:
            return Announced.from_json(_text(data)) if data is not None else None
        except ValueError:
            return None

    def write_announced(self, announced: Announced) -> None:
        durable_files.replace(self.folder / layout.ANNOUNCED, announced.to_json().encode())

    def read_confirmed(self) -> str:
        """Read the replay id (hex) that Salesforce keeps; empty if it has confirmed none.

        A file that cannot be parsed counts as none: the replay id is then committed to Salesforce
        again.
        """
        data = durable_files.read(self.folder / layout.CONFIRMED)
        try:
            return Confirmed.from_json(_text(data)).replay_id if data is not None else ""
        except ValueError:
            return ""

    def write_confirmed(self, confirmed: Confirmed) -> None:
        durable_files.replace(self.folder / layout.CONFIRMED, confirmed.to_json().encode())

    def read_extra_deliveries(self) -> dict[str, int]:
        """Read the extra deliveries that were recorded after staging, by cause.

        A file that cannot be parsed counts as none.
        """
        data = durable_files.read(self.folder / layout.EXTRA_DELIVERIES)
        try:
            noted = dict(json.loads(_text(data))) if data is not None else {}
            return {str(cause): int(count) for cause, count in noted.items()}
        except (ValueError, TypeError):
            return {}

    def extra_deliveries_of(self, manifest: Manifest) -> dict[str, int]:
        """Return the extra deliveries by cause: from the manifest, and recorded after staging."""
        return manifest.extra_deliveries | self.read_extra_deliveries()

    def count_extra_deliveries(self, more: Mapping[str, int]) -> None:
        """Add extra deliveries to the record.

        Two writers at once may lose one addition: no decision depends on the counts.
        """
        if any(more.values()):
            noted = sums(self.read_extra_deliveries(), more)
            durable_files.replace(self.folder / layout.EXTRA_DELIVERIES, json.dumps(noted).encode())

    def attempts_before(self, lease: leases.Lease) -> list[AttemptDeliveries]:
        """Return the events that earlier lease holders have received and closed."""
        received = leases.received(self.folder)
        before = [one for one in received if one < lease.number]
        parts = self.parts() if before else []
        return [
            AttemptDeliveries(
                received=received[one],
                closed=tuple(
                    part for part in parts if part.path.startswith(f"{layout.attempt_folder(one)}/")
                ),
            )
            for one in before
        ]

    def identities(self, parts: Sequence[Part]) -> dict[bytes, str]:
        """Return the event ids in these files, by replay id; an unreadable file has none."""
        if not parts:
            return {}
        from airflow_provider_sfevents.staging.parts.part_reader import identities

        return {key: name for part in parts for key, name in identities(self.folder, part).items()}

    def last_event(self, part: Part) -> tuple[str, bytes]:
        """Read schema id and payload of a file's last event.

        :raises StagingError: the file cannot be read.
        """
        from airflow_provider_sfevents.staging.parts.part_reader import last_event

        return last_event(self.folder, part)

    def events(self, parts: Iterable[Part]) -> list[dict[str, Any]]:
        """Read the rows of closed files, in order; by the columns of `layout.STAGED_COLUMNS`.

        :raises StagingError: a file cannot be read.
        """
        from airflow_provider_sfevents.staging.parts.part_reader import rows

        return [row for part in parts for row in rows(self.folder, part)]

    def read_schema(self, schema_id: str) -> str:
        """Return the schema's JSON; empty if there is no such file."""
        data = durable_files.read(self.folder / layout.schema_name(schema_id))
        return _text(data) if data else ""

    def write_schema(self, schema_id: str, schema: str) -> None:
        """Write a schema beside its events.

        An id always means the same schema, so the first file stays.
        """
        place = self.folder / layout.schema_name(schema_id)
        if not durable_files.create_once(place, schema.encode()) and not self._is_whole(place):
            durable_files.replace(place, schema.encode())

    def write_unknown_schema(self, schema_id: str, reason: str) -> None:
        """Record that the service has no such schema; `reason` is shown in quarantine."""
        durable_files.create_once(
            self.folder / layout.unknown_schema_name(schema_id), reason.encode()
        )

    def schemas(self) -> set[str]:
        """Return the ids of the schemas in this folder."""
        folder = self.folder / layout.SCHEMAS
        there = [
            name
            for name in durable_files.names(folder)
            if name.endswith(_SCHEMA_SUFFIX) and not name.startswith(".")
        ]
        if not durable_files.writes_whole(folder):
            there = [name for name in there if self._is_whole(folder / name)]
        return {unquote(name.removesuffix(_SCHEMA_SUFFIX)) for name in there}

    def _is_whole(self, schema: UPath) -> bool:
        """Return whether a schema was written to its end; some stores show half-written files."""
        try:
            json.loads(durable_files.read(schema) or b"")
        except ValueError:
            return False
        return True

    def remove(self) -> None:
        """Remove the batch, its manifest first, so that a half-removed batch never looks staged."""
        durable_files.remove(self.folder / layout.MANIFEST)
        durable_files.remove(self.folder)

    def _parts(self, *, sound: bool) -> list[Part]:
        paths = self._part_paths()
        if not paths:  # the usual case of a wait, which then need not import Arrow
            return []
        from airflow_provider_sfevents.staging.parts.part_reader import read_part, read_sound_part

        read = read_sound_part if sound else read_part
        found = [read(self.folder, path) for path in paths]
        return [part for part in found if part is not None]

    def _part_paths(self) -> list[str]:
        return [
            f"{layout.ATTEMPTS}/{attempt}/{name}"
            for attempt in durable_files.names(self.folder / layout.ATTEMPTS)
            for name in durable_files.names(self.folder / layout.ATTEMPTS / attempt)
            if name.startswith(_PART_PREFIX) and name.endswith(_PART_SUFFIX)
        ]

    def _remove_leftovers(self, lease: int) -> None:
        """Remove the unfinished files of earlier holders, which are gone."""
        if lease == 1:
            return
        attempts = self.folder / layout.ATTEMPTS
        for folder in (
            self.folder,
            self.folder / layout.SCHEMAS,
            *(attempts / name for name in durable_files.names(attempts)),
        ):
            for name in filter(durable_files.is_leftover, durable_files.names(folder)):
                durable_files.remove(folder / name)


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
