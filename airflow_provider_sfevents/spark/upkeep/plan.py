"""Options of upkeep, the aim of compaction, and the report on a table. No I/O, no Spark."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.options import option
from airflow_provider_sfevents.spark.tables import naming

if TYPE_CHECKING:
    from collections.abc import Iterable

LEAST_HOURS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepOptions:
    """Tables to maintain, and how."""

    table: str = field(
        default="", metadata=option("folder of the event tables, or a namespace's name", "ROOT")
    )
    current_state: str = field(
        default="",
        metadata=option("folder of the current-state tables, or a namespace's name", "ROOT"),
    )
    table_format: str = field(
        metadata=option("table format: delta or iceberg", "FORMAT", flag="--format")
    )
    keep_hours: int = field(
        default=168,
        metadata=option(
            "versions of a table younger than this stay readable, with their files", "N", read=int
        ),
    )
    dry_run: bool = field(default=True, metadata=option("only report what would be done"))
    report: str = field(default="", metadata=option("file for the report, as JSON", "URL"))

    def roots(self) -> list[tuple[str, bool]]:
        """Root or namespace of each set of tables, and whether it is the one of current state."""
        given = ((self.table, False), (self.current_state, True))
        return [(root, is_state) for root, is_state in given if root]

    def check(self) -> None:
        if not self.roots():
            raise ConfigurationError(
                "Neither table nor current_state is given. Give the root URL or the namespace of "
                "the tables to maintain."
            )
        if self.table_format not in {naming.DELTA, naming.ICEBERG}:
            raise ConfigurationError(
                f"table_format={self.table_format!r} cannot be maintained: compaction needs a "
                "format with commits. Give table_format='delta' or 'iceberg'."
            )
        if self.keep_hours < LEAST_HOURS:
            raise ConfigurationError(
                f"keep_hours={self.keep_hours} is too short: a landing that is at work, and its "
                f"retries, may still need files that old. Give at least {LEAST_HOURS}."
            )
        for root, is_state in self.roots():
            argument = "current_state" if is_state else "table"
            naming.place_of(root, self.table_format, argument)


def ideal_files(parts: Iterable[tuple[int, int]], target: int) -> int:
    """Number of files after compaction: for each partition as many as its bytes need.

    :param parts: number and bytes of each partition's files.
    :param target: bytes of a compacted file.
    """
    return sum(max(1, -(-size // target)) for files, size in parts if files)


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergFiles:
    """Files of an Iceberg table's current snapshot.

    :param parts: number and bytes of each partition's data files.
    :param deletes: number of files of position deletes.
    :param manifests: number of manifests of data files; `manifest_bytes` their size.
    """

    parts: tuple[tuple[int, int], ...]
    deletes: int
    manifests: int
    manifest_bytes: int

    @property
    def files(self) -> int:
        """Data files."""
        return sum(files for files, _ in self.parts)

    @property
    def size(self) -> int:
        """Bytes of the data files."""
        return sum(size for _, size in self.parts)

    def needs_compaction(self, target: int) -> bool:
        """Return whether data files are worth a rewrite.

        Each run decides anew, so that the next one completes one that was killed.

        :param target: bytes of a compacted file.
        """
        return self.deletes > 0 or self.files > ideal_files(self.parts, target)

    def needs_manifests(self, target: int) -> bool:
        """Tell whether manifests are worth a rewrite.

        :param target: bytes that a manifest may have.
        """
        return self.manifests > max(1, -(-self.manifest_bytes // target))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReport:
    """Result of upkeep of one table; in a dry run a forecast of all but the first three values.

    :param files: data files that a reader of the table opens, before; `size` their bytes.
    :param files_after: after compaction.
    :param expired: versions that expired (Iceberg's snapshots; Delta's expire with its log).
    :param removed_files: files removed that no remaining version needs.
    :param removed_size: their bytes; 0 where the format does not tell.
    :param tombstones: rows removed from the table `tombstones`.
    :param skipped: reason why the table was left as it is; empty otherwise.
    """

    table: str
    files: int
    size: int
    files_after: int = 0
    expired: int = 0
    removed_files: int = 0
    removed_size: int = 0
    tombstones: int = 0
    skipped: str = ""

    def text(self, *, dry_run: bool) -> str:
        """One line for the log."""
        would = "would be " if dry_run else ""
        said = [f"{counted(self.files, 'data file')} of {megabytes(self.size)}"]
        if self.files_after < self.files:
            said.append(f"{would}compacted to {'about ' if dry_run else ''}{self.files_after}")
        if self.expired:
            said.append(f"{counted(self.expired, 'old version')} {would}expired")
        if self.removed_files:
            size = f" of {megabytes(self.removed_size)}" if self.removed_size else ""
            said.append(f"{counted(self.removed_files, 'unneeded file')}{size} {would}removed")
        if self.tombstones:
            said.append(f"{counted(self.tombstones, 'tombstone')} {would}removed")
        if self.skipped:
            said.append(f"skipped: {self.skipped}")
        elif len(said) == 1:
            said.append("nothing to do")
        return f"{self.table}: {', '.join(said)}."


def summary(reports: Iterable[TableReport], *, dry_run: bool) -> dict[str, Any]:
    """Report on all tables, JSON-serialisable: sums, and under `tables` each table's values.

    Values that are 0 or empty are left out of `tables`.
    """
    found = list(reports)
    sums = ("files", "size", "files_after", "expired", "removed_files", "removed_size")
    return {
        "dry_run": dry_run,
        **{name: sum(getattr(one, name) for one in found) for name in (*sums, "tombstones")},
        "skipped": [one.table for one in found if one.skipped],
        "tables": {
            one.table: {
                name: value for name, value in asdict(one).items() if value and name != "table"
            }
            for one in found
        },
    }


def megabytes(size: int) -> str:
    """Bytes for a log line."""
    return f"{size / 1e6:,.1f} MB" if size >= 50_000 else f"{size / 1e3:,.1f} kB"
