"""Duplicates: events of a batch that have landed already, in whichever batch.

An event is known by its id; a change event also by what it says of itself: entity, transaction,
number in it, kind of change, records. (The kind belongs to it: the overflow event of an entity may
bear the number of its last normal event.) Two events are one where either is equal; so a change
that is delivered again with another id, or with none, is the same. An event that has neither (one
without id that cannot be decoded) is never taken for another. The replay id is no identity: it is
given anew.

What was just written is compared with what stands in the tables, as late as can be. An event that
is delivered again has the same bytes, so the same time, so the same `event_date`; only where an
event has no time of its own does its date come from when it was received, which is up to three days
later (as long as the bus keeps it). So a few dates are compared, also where the bus delivers a long
span again.

1. Rows of this very batch do not count: landing it again replaces them.
2. What is in a table counts for its quarantine too, but not the other way round: an event that can
   be decoded at last lands.
3. In one batch the first one stays.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING

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
from airflow_provider_sfevents.spark.tables.interface import Standing
from airflow_provider_sfevents.spark.tables.projection import view_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Set as AbstractSet

    import pyarrow as pa
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
    """A table that may hold what a batch brings.

    :param natural: its change events have what makes an identity without an id.
    :param days: how many days before and after an event's date it may stand there.
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
            table=name,
            natural=name in kinds and _is_natural(kinds[name]),
            days=DAYS_AROUND_RECEIPT,
        )
        for name in names
    )
    return (
        Source(table=file_moves.QUARANTINE, natural=False, days=DAYS_AROUND_RECEIPT),
        *tables,
    )


def dates_around(dates: Iterable[str], days: int) -> list[str]:
    """Dates that are so near to these, and these; ISO-8601, as are the given ones."""
    ordinals = {
        near
        for text in dates
        for at in [date.fromisoformat(text).toordinal()]
        for near in range(at - days, at + days + 1)
        if 1 <= near <= date.max.toordinal()
    }
    return [date.fromordinal(at).isoformat() for at in sorted(ordinals)]


class Comparison:
    """Compares what an attempt wrote with what stands in the tables.

    :param folder: of the attempt.
    """

    def __init__(self, tables: Tables, batch: StagedBatch, *, folder: str) -> None:
        self._spark = tables.spark
        self._tables = tables
        self._batch = batch
        self._folder = folder

    def standing(self, written: Iterable[str]) -> Compared:
        """Look what there is that may hold what was written.

        Equal answers mean that nothing has come.

        :param written: paths relative to the attempt's folder.
        """
        dates = self._dates(written)
        manifest = self._batch.manifest
        return {
            (table, source): self._tables.standing(
                source.table, dates_around(dates[table], source.days), manifest.batch_id
            )
            for table in sorted(dates)
            for source in sources(self._batch.plan, table, manifest.topic)
        }

    def duplicates(self, written: Mapping[str, int], standing: Compared) -> Found:
        """Find events that were written and must not land; one Spark query for all tables.

        :param written: rows by path relative to the attempt's folder.
        """
        if not written or (sum(written.values()) == 1 and not any(standing.values())):
            return Found()
        rows = self._query(written, standing).toArrow()
        found: dict[str, set[int]] = {}
        for table in sorted(self._dates(written)):
            known = set(_of(rows, table, KNOWN)[IDENTITY].to_pylist())
            if repeated := repetitions(suspects(_of(rows, table, OURS), known), known):
                found[table] = set(repeated)
                logger.info(
                    "%s: left out %s that landed before or came twice in the batch; the "
                    "first is %s.",
                    table,
                    counted(len(repeated), "event"),
                    repeated[min(repeated)],
                )
        return Found(ordinals=found, is_landed=bool(_of(rows, "", LANDED).num_rows))

    def _query(self, written: Iterable[str], standing: Compared) -> DataFrame:
        """Identities of what was written, and what of them is known, of all tables together."""
        manifest = self._batch.manifest
        tables = [
            self._table(table, dates, standing)
            for table, dates in sorted(self._dates(written).items())
        ]
        query = comparison_sql.comparison(
            tables, manifest.org_id, manifest.topic, manifest.batch_id
        )
        return self._spark.sql(query)

    def _table(
        self, table: str, dates: set[str], standing: Compared
    ) -> comparison_sql.TableComparison:
        compared = {
            source: self._known(source, there, dates_around(dates, source.days))
            for (name, source), there in standing.items()
            if name == table and there
        }
        own = [rows for source, rows in compared.items() if source.table == table]
        return comparison_sql.TableComparison(
            table=table,
            written=self._written(table),
            own=own[0] if own else None,
            others=[rows for source, rows in compared.items() if source.table != table],
        )

    def _dates(self, written: Iterable[str]) -> dict[str, set[str]]:
        """Dates by table."""
        dates: dict[str, set[str]] = {}
        for path in written:
            dates.setdefault(file_moves.table_of(path), set()).add(file_moves.date_of(path))
        return dates

    def _written(self, table: str) -> comparison_sql.Rows:
        natural = any(kind.name == table and _is_natural(kind) for kind in self._batch.plan.types)
        columns = comparison_sql.columns(natural=natural)
        rows = self._spark.read.schema(columns).parquet(f"{self._folder}/{table}")
        return comparison_sql.Rows(view=view_of(rows), natural=natural)

    def _known(self, source: Source, standing: Standing, dates: list[str]) -> comparison_sql.Rows:
        columns = comparison_sql.columns(natural=source.natural)
        rows = self._tables.known(source.table, standing, dates, columns)
        return comparison_sql.Rows(view=view_of(rows), natural=source.natural)


def repetitions(rows: Iterable[tuple[int, str]], known: AbstractSet[str]) -> dict[int, str]:
    """Those of the events that are known already, or come after one of the same identity.

    :param rows: ordinal and identity of each event that has one; an event with two comes twice.
    """
    seen = set(known)
    found = {}
    for ordinal, identity in sorted(rows):
        if identity in seen:
            found[ordinal] = identity
        seen.add(identity)
    return found


def suspects(ours: pa.Table, known: AbstractSet[str]) -> Iterable[tuple[int, str]]:
    """Ordinal and identity of the events whose identity is known or comes several times.

    Of a million there are nearly always none.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    counted = ours.group_by(IDENTITY).aggregate([(IDENTITY, "count")])
    several = counted.filter(pc.greater(counted[f"{IDENTITY}_count"], 1))[IDENTITY].to_pylist()
    wanted = pa.array({*known, *several}, ours.schema.field(IDENTITY).type)
    found = ours.filter(pc.is_in(ours[IDENTITY], value_set=wanted))
    columns = (found[name].to_pylist() for name in (envelope.ORDINAL, IDENTITY))
    return zip(*columns, strict=True)


def _of(rows: pa.Table, table: str, kind: int) -> pa.Table:
    import pyarrow.compute as pc

    return rows.filter(pc.and_(pc.equal(rows[TABLE], table), pc.equal(rows[KIND], kind)))


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
