"""Records of an entity snapshot, read from the org for `spark/entity_snapshot.py`.

<staging>/_reads/<org>/<entity>/<read id>/
    records/part-00001.csv      or .jsonl: as the org sent them
    deleted.txt                 ids that were asked for and no longer exist, one per line
    schema.avsc                 of the entity's change events
    read.json                   written last: the read is complete
    report.json                 written by the Spark job: the outcome, counted
"""

from __future__ import annotations

import json
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.storage import durable_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from upath import UPath

VERSION = 1
RECORDS = "records"
DELETED = "deleted.txt"
SCHEMA = "schema.avsc"
READ = "read.json"
REPORT = "report.json"

KEEP_FOR = timedelta(days=2)
"""Age at which a read is left over: longer than any read, and the Spark job that applies it."""

_TIME = "%Y%m%dT%H%M%S"


class Writer(Protocol):
    """Interface of a file that takes bytes in order."""

    def write(self, data: bytes, /) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadManifest:
    """Manifest of a complete read.

    :param read_at: everything that was committed before this second is in the read; ISO-8601, by
        the org's clock.
    :param whole: all records of the entity were asked for; otherwise some, by their ids.
    :param read_by: `bulk` or `rest`.
    :param fields: by their names over REST.
    :param unseen: fields of the entity's change events that the user cannot read.
    :param records: number of them.
    :param deleted: number of records that were asked for and no longer exist.
    """

    org_id: str
    entity: str
    read_id: str
    read_at: str
    whole: bool
    read_by: str
    records_format: str
    fields: tuple[str, ...]
    unseen: tuple[str, ...]
    records: int
    deleted: int = 0

    def to_json(self) -> str:
        return json.dumps({"version": VERSION, **asdict(self)}, indent=1)


class ReadFolder:
    """Folder of one read.

    :param folder: used by this read alone.
    """

    def __init__(self, folder: UPath) -> None:
        self.folder = folder

    @classmethod
    def new(cls, root: UPath, org_id: str, entity: str, read_id: str) -> ReadFolder:
        """Return the folder of a new read.

        :param root: of the staging area.
        """
        return cls(root / layout.READS / org_id / entity / read_id)

    @contextmanager
    def part(self, number: int, suffix: str) -> Iterator[Writer]:
        """Write a file of records. If the block raises, the file is missing or does not count.

        :raises StagingError: it cannot be written.
        """
        target = self.folder / RECORDS / f"part-{number:05}.{suffix}"
        if not durable_files.is_local(target):
            with durable_files.told(target, "be created"):
                opened = target.fs.open(target.path, "wb")
            try:
                yield _Told(opened, target)
                with durable_files.told(target, "be written"):
                    opened.close()
            except BaseException:
                _give_up(opened)
                raise
            return
        hidden: Path = durable_files.hidden_beside(target)
        try:
            with durable_files.told(target, "be created"):
                local = durable_files.open_new(hidden)
            with local:
                yield _Told(local, target)
        except BaseException:
            with suppress(OSError):
                hidden.unlink(missing_ok=True)
            raise
        durable_files.reveal(hidden, target)

    def write(self, name: str, data: bytes) -> None:
        durable_files.replace(self.folder / name, data)

    def finish(self, manifest: ReadManifest) -> None:
        """Mark the read as complete."""
        self.write(READ, manifest.to_json().encode())

    def read_report(self) -> dict[str, int]:
        """Return the counts of the Spark job.

        :raises StagingError: the job left no report, so it did nothing.
        """
        place = self.folder / REPORT
        try:
            return dict(json.loads(durable_files.read(place) or b""))
        except ValueError as error:
            raise StagingError(
                f"The Spark job ended without a report at {place}, so the entity snapshot may "
                "not have been applied. Run the task again."
            ) from error

    def remove_with_leftovers(self) -> None:
        """Remove this read, once its records have been applied, and reads of ended tasks.

        Younger reads stay: another task may be reading the entity for other tables.
        """
        entity = self.folder.parent
        for name in durable_files.names(entity):
            if name == self.folder.name or _is_left_over(name, self.folder.name):
                durable_files.remove(entity / name)


class _Told:
    """A file whose errors are raised as `StagingError`."""

    def __init__(self, file: Writer, target: UPath) -> None:
        self._file = file
        self._target = target

    def write(self, data: bytes, /) -> None:
        with durable_files.told(self._target, "be written"):
            self._file.write(data)


def _give_up(file: Any) -> None:
    """Abort the upload of a file; an open one is billed, and would be completed at the end."""
    with suppress(Exception):
        file.discard()
        file.closed = True


def read_id(at: datetime, token: str) -> str:
    """Return the name of a read; names sort as times do.

    :param at: UTC.
    :param token: random, since two reads may begin in one second.
    """
    return f"{at:{_TIME}}-{token}"


def _is_left_over(name: str, now: str) -> bool:
    """Return whether a read began `KEEP_FOR` before another one; both times are the org's."""
    try:
        return _begun_at(now) - _begun_at(name) > KEEP_FOR
    except ValueError:
        return False


def _begun_at(read_id: str) -> datetime:
    return datetime.strptime(read_id.partition("-")[0], _TIME).replace(tzinfo=UTC)
