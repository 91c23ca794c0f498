"""Duplicates: events of a batch that have landed already, in whichever batch.

An event's identity is its id; a change event has a second identity: entity, transaction, number in
the transaction, kind of change, records. (The kind is part of it, because the overflow event of an
entity may have the number of its last normal event.) Two events are duplicates if either identity
is equal, so a change that is delivered again with another id, or without one, is a duplicate. An
event without an identity (no id, and not decodable) is never a duplicate. The replay id is no
identity, because an event that is delivered again may have a new one.

The rows just written are compared with the tables' rows as late as possible. An event that is
delivered again has the same bytes, and therefore the same event time and the same `event_date`.
Only an event without a time of its own gets its date from when it was received, up to three days
later (as long as the bus keeps it). So few dates are compared, even if the bus delivers a long span
again.

1. Rows of the same batch do not count, because landing it again replaces them.
2. A quarantined event is a duplicate of a row in its event table, but not the other way round: an
   event that can be decoded at last lands.
3. Of duplicates within one batch, the first event stays.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import date
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.spark.avro.decode import HEADER
from airflow_provider_sfevents.spark.landing import comparison_sql
from airflow_provider_sfevents.spark.landing.comparison_sql import (
    IDENTITY,
    KIND,
    KNOWN,
    LANDED,
    OURS,
    TABLE,
)
from airflow_provider_sfevents.spark.schema import envelope
from airflow_provider_sfevents.spark.tables import file_moves
from airflow_provider_sfevents.spark.tables.interface import KnownRows, Standing
from airflow_provider_sfevents.spark.tables.projection import rows_by_table, view_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence, Set as AbstractSet

    from pyspark.sql import DataFrame

    from airflow_provider_sfevents.spark.landing.staged_batch import StagedBatch
    from airflow_provider_sfevents.spark.schema.event_columns import EventType, SchemaPlan
    from airflow_provider_sfevents.spark.tables.interface import Tables

logger = logging.getLogger(__name__)

_DAYS_AROUND = 1
DAYS_AROUND_RECEIPT = 4  # the bus keeps events for 72 hours; a day more for the borders of days


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Result of a comparison.

    :param ordinals: of the events that must not land, by table.
    :param is_landed: a table already holds rows of this very batch.
    """

    ordinals: Mapping[str, set[int]] = field(default_factory=dict)
    is_landed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A table that may already hold events of a batch.

    :param natural: it has the columns that identify a change event without an event id.
    :param days: number of days before and after an event's date on which it may be there.
    """

    table: str
    natural: bool
    days: int


Compared = dict[tuple[str, Source], Standing]
"""State of each source that each table of the batch is compared with."""


def sources(plan: SchemaPlan, table: str, topic: str) -> tuple[Source, ...]:
    """Name the tables that may already hold events which a batch is about to land in this one."""
    kinds = {kind.name: kind for kind in plan.types}
    if table != file_moves.QUARANTINE:
        return (_source(kinds[table]),)
    # Of an event whose schema is not known the type is not either; most topics have but one, which
    # their name tells.
    names = sorted({*plan.names.values(), topic.rpartition("/")[2]} - {""})
    tables = (
        Source(
            table=name, natural=name in kinds and _is_natural(kinds[name]), days=DAYS_AROUND_RECEIPT
        )
        for name in names
    )
    return (Source(table=file_moves.QUARANTINE, natural=False, days=DAYS_AROUND_RECEIPT), *tables)


def dates_around(dates: Iterable[str], days: int) -> list[str]:
    """Return these dates and those within so many days of them, in ISO-8601."""
    ordinals = {
        near
        for text in dates
        for at in [date.fromisoformat(text).toordinal()]
        for near in range(at - days, at + days + 1)
        if 1 <= near <= date.max.toordinal()
    }
    return [date.fromordinal(at).isoformat() for at in sorted(ordinals)]


class Comparison:
    """Compares the events that an attempt wrote with those in the tables.

    :param folder: of the attempt.
    :param contents: of the attempt's files, where the driver wrote them.
    """

    def __init__(
        self, tables: Tables, batch: StagedBatch, *, folder: str, contents: Mapping[str, bytes]
    ) -> None:
        self._spark = tables.spark
        self._tables = tables
        self._batch = batch
        self._folder = folder
        self._contents = contents

    def standing(self, written: Iterable[str]) -> Compared:
        """List the files or versions of the tables that may hold the written events.

        Equal results of two calls mean that no other landing came in between.

        :param written: paths relative to the attempt's folder.
        """
        dates = file_moves.dates_of(written)
        manifest = self._batch.manifest
        return {
            (table, source): self._tables.standing(
                source.table, dates_around(dates[table], source.days), manifest.batch_id
            )
            for table in dates
            for source in sources(self._batch.plan, table, manifest.topic)
        }

    def duplicates(self, written: Mapping[str, int], standing: Compared) -> Found:
        """Find the written events that are duplicates; one Spark query for all tables.

        :param written: rows by path relative to the attempt's folder.
        """
        if not written or (sum(written.values()) == 1 and not any(standing.values())):
            return Found()
        rows = self._query(written, standing).toArrow()
        found: dict[str, set[int]] = {}
        for table in file_moves.dates_of(written):
            ours = _of(rows, OURS, [table])
            landed = _of(rows, KNOWN, [one.table for name, one in standing if name == table])
            known = set(landed[IDENTITY].to_pylist())
            if repeated := repetitions(suspects(ours, known), known):
                found[table] = set(repeated)
                logger.info(
                    "%s: left out %s that landed before or came twice in the batch; the "
                    "first is %s.",
                    table,
                    counted(len(repeated), "event"),
                    repeated[min(repeated)],
                )
        tables = [one.table for _, one in standing]
        return Found(ordinals=found, is_landed=bool(_of(rows, LANDED, tables).num_rows))

    def _query(self, written: Iterable[str], standing: Compared) -> DataFrame:
        """Run the comparison of all tables: identities of written events, and which have landed."""
        manifest = self._batch.manifest
        dates = file_moves.dates_of(written)
        natural = {kind.name for kind in self._batch.plan.types if _is_natural(kind)}
        query = comparison_sql.comparison(
            self._written(dates, natural),
            self._landed(standing, dates),
            manifest.org_id,
            manifest.topic,
            manifest.batch_id,
        )
        return self._spark.sql(query)

    def _landed(
        self, standing: Compared, dates: Mapping[str, Sequence[str]]
    ) -> Iterator[comparison_sql.Rows]:
        """Rows of the tables that may hold events of the batch; a table is read once."""
        wanted: dict[bool, dict[str, KnownRows]] = {}
        for (table, source), there in standing.items():
            if there:
                tables = wanted.setdefault(source.natural, {})
                near = dates_around(dates[table], source.days)
                before = tables.get(source.table, KnownRows(standing={}, dates=()))
                tables[source.table] = KnownRows(
                    standing={**before.standing, **there}, dates=(*before.dates, *near)
                )
        for natural, tables in wanted.items():
            columns = comparison_sql.columns(natural=natural)
            rows = self._tables.known(tables, columns, TABLE)
            yield comparison_sql.Rows(view=view_of(rows), natural=natural)

    def _written(
        self, tables: Iterable[str], natural: AbstractSet[str]
    ) -> Iterator[comparison_sql.Rows]:
        """Rows that the attempt wrote."""
        for is_natural, of_kind in groupby(
            sorted(tables, key=natural.__contains__), natural.__contains__
        ):
            if self._contents:
                rows = self._held(set(of_kind), comparison_sql.paths(natural=is_natural))
            else:
                columns = comparison_sql.columns(natural=is_natural)
                folders = [f"{self._folder}/{file_moves.folder_of(table)}" for table in of_kind]
                rows = rows_by_table(self._spark, columns, folders, TABLE, 4)
            yield comparison_sql.Rows(view=view_of(rows), natural=is_natural)

    def _held(self, tables: AbstractSet[str], paths: list[str]) -> DataFrame:
        """Read what the driver wrote from its memory, where Spark would open each file twice."""
        found = []
        for file, content in self._contents.items():
            if (table := file_moves.table_of(file)) in tables:
                rows = pq.ParquetFile(pa.BufferReader(content)).read(columns=paths)
                found.append(rows.append_column(TABLE, pa.repeat(table, len(rows))))
        return self._spark.createDataFrame(pa.concat_tables(found, promote_options="permissive"))


def repetitions(rows: Iterable[tuple[int, str]], known: AbstractSet[str]) -> dict[int, str]:
    """Select the events that have landed, or come after another event of the same identity.

    :param rows: ordinals and identities of events; an event with two identities has two entries.
    """
    seen = set(known)
    found = {}
    for ordinal, identity in sorted(rows):
        if identity in seen:
            found[ordinal] = identity
        seen.add(identity)
    return found


def suspects(ours: pa.Table, known: AbstractSet[str]) -> Iterable[tuple[int, str]]:
    """Select events whose identity may have landed or may occur several times; usually none.

    By hashes, which take a fraction of the memory of Arrow's groups.
    """
    texts = (one for chunk in ours[IDENTITY].chunks for one in chunk.to_pylist())
    hashes = np.fromiter(map(hash, texts), np.int64, len(ours))
    ordered = np.sort(hashes)
    several = ordered[1:][ordered[1:] == ordered[:-1]]
    found = ours.filter(pa.array(np.isin(hashes, [*several, *map(hash, known)])))
    columns = (found[name].to_pylist() for name in (envelope.ORDINAL, IDENTITY))
    return zip(*columns, strict=True)


def _of(rows: pa.Table, kind: int, tables: Iterable[str]) -> pa.Table:
    of_tables = pc.is_in(rows[TABLE], value_set=pa.array(sorted({*tables}), pa.string()))
    wanted = pc.and_(of_tables, pc.equal(rows[KIND], kind))
    # A batch usually has one table, whose rows need no copy.
    return rows if pc.all(wanted).as_py() else rows.filter(wanted)


def _source(kind: EventType) -> Source:
    timed = any(column.field in {HEADER, "CreatedDate"} for column in kind.columns)
    return Source(
        table=kind.name,
        natural=_is_natural(kind),
        days=_DAYS_AROUND if timed else DAYS_AROUND_RECEIPT,
    )


def _is_natural(kind: EventType) -> bool:
    header = next((column.type for column in kind.columns if column.field == HEADER), None)
    members = dict(header.members) if header else {}
    return all(
        name in members and members[name].kind in of for name, of in comparison_sql.NATURAL.items()
    )
