"""Which events of a batch have landed before: no event is to be in a table twice, whichever batch brought it.

An event is known by its id; a change event also by what it says of itself: entity, transaction, number in it, kind of change, records.
(The kind belongs to it: the overflow event of an entity may bear the number of its last normal event.) Two events are one where either is
equal; so a change that is delivered again with another id, or with none, is the same. An event that has neither (one without id that
cannot be decoded) is never taken for another. The replay id is no identity: it is given anew.

What was just written is compared with what stands in the tables, as late as can be. An event that is delivered again has the same
bytes, so the same time, so the same `event_date`; only where an event has no time of its own does its date come from when it was
received, which is up to three days later (as long as the bus keeps it). So a few dates are compared, also where the bus delivers a
long span again.

1. Rows of this very batch do not count: landing it again replaces them.
2. What is in a table counts for its quarantine too, but not the other way round: an event that can be decoded at last lands.
3. In one batch the first one stays.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import date
from functools import reduce
from typing import TYPE_CHECKING

from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.spark.avro.decode import HEADER
from airflow_provider_sfevents.spark.schema import envelope
from airflow_provider_sfevents.spark.tables import file_moves
from airflow_provider_sfevents.spark.tables.interface import Standing

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

_NATURAL = {
    "entityName": ("string",),
    "transactionKey": ("string",),
    "sequenceNumber": ("int", "long"),
    "changeType": ("string",),
    "recordIds": ("array",),
}
_HEADER_SQL = (
    f"{HEADER} struct<entityName: string, transactionKey: string, sequenceNumber: bigint, changeType: string, "
    "recordIds: array<string>>"
)
_ROW_SQL = (
    f"{envelope.EVENT_ID} string, {envelope.ORG_ID} string, {envelope.TOPIC} string, "
    f"{envelope.BATCH_ID} string, {envelope.ORDINAL} bigint"
)
_IDENTITY, _TABLE, _KIND = "identity", "compared_table", "kind"
_OURS, _KNOWN, _LANDED = range(3)
"""Rows of the query: events that were written, identities that others have landed, rows of this very batch."""


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
"""What is standing, for each table of the batch and each source it is compared with."""


def sources(plan: SchemaPlan, table: str, topic: str) -> tuple[Source, ...]:
    """Where events may stand already that a batch is about to land in this table."""
    kinds = {kind.name: kind for kind in plan.types}
    if table != file_moves.QUARANTINE:
        return (_source(kinds[table]),)
    # Of an event whose schema is not known the type is not either; most topics have but one, which their name tells.
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
        """Look what there is that may hold what was written; equal answers mean that nothing has come.

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
            known = set(_of(rows, table, _KNOWN)[_IDENTITY].to_pylist())
            if repeated := repetitions(suspects(_of(rows, table, _OURS), known), known):
                found[table] = set(repeated)
                logger.info(
                    "%s: left out %s that landed before or came twice in the batch; the first is %s.",
                    table,
                    counted(len(repeated), "event"),
                    repeated[min(repeated)],
                )
        return Found(ordinals=found, is_landed=bool(_of(rows, "", _LANDED).num_rows))

    def _query(self, written: Iterable[str], standing: Compared) -> DataFrame:
        """Identities of what was written, and what of them is known, of all tables together."""
        from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

        frames = []
        for table, dates in sorted(self._dates(written).items()):
            ours = self._written(table)
            frames.append(_marked(ours, table, _OURS))
            for (compared, source), there in standing.items():
                if compared == table and there:
                    rows = self._known(source, there, dates_around(dates, source.days))
                    is_own = F.col(envelope.BATCH_ID) == self._batch.manifest.batch_id
                    others = _identified(rows.where(~is_own), natural=source.natural)
                    known = others.join(ours.select(_IDENTITY), on=_IDENTITY, how="left_semi")
                    frames.append(_marked(known, table, _KNOWN))
                    if table == source.table:
                        own = rows.where(is_own).withColumn(_IDENTITY, F.lit(""))
                        frames.append(_marked(own, "", _LANDED))
        return reduce(lambda one, other: one.unionAll(other), frames)

    def _dates(self, written: Iterable[str]) -> dict[str, set[str]]:
        """Dates by table."""
        dates: dict[str, set[str]] = {}
        for path in written:
            dates.setdefault(file_moves.table_of(path), set()).add(file_moves.date_of(path))
        return dates

    def _written(self, table: str) -> DataFrame:
        natural = any(kind.name == table and _is_natural(kind) for kind in self._batch.plan.types)
        rows = self._spark.read.schema(_sql(natural=natural)).parquet(f"{self._folder}/{table}")
        return _identified(rows, natural=natural).select(_IDENTITY, envelope.ORDINAL)

    def _known(self, source: Source, standing: Standing, dates: list[str]) -> DataFrame:
        """Rows of the same org and topic that stand there."""
        from pyspark.sql import functions as F  # noqa: N812

        manifest = self._batch.manifest
        rows = self._tables.known(source.table, standing, dates, _sql(natural=source.natural))
        return rows.where(
            (F.col(envelope.ORG_ID) == manifest.org_id) & (F.col(envelope.TOPIC) == manifest.topic)
        )


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
    """Ordinal and identity of the events whose identity is known or comes several times; of a million that is nearly always none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    counted = ours.group_by(_IDENTITY).aggregate([(_IDENTITY, "count")])
    several = counted.filter(pc.greater(counted[f"{_IDENTITY}_count"], 1))[_IDENTITY].to_pylist()
    wanted = pa.array({*known, *several}, ours.schema.field(_IDENTITY).type)
    found = ours.filter(pc.is_in(ours[_IDENTITY], value_set=wanted))
    columns = (found[name].to_pylist() for name in (envelope.ORDINAL, _IDENTITY))
    return zip(*columns, strict=True)


def _marked(rows: DataFrame, table: str, kind: int) -> DataFrame:
    """Rows of the query: which table they concern, and why they are in it."""
    from pyspark.sql import functions as F  # noqa: N812

    ordinal = F.col(envelope.ORDINAL) if kind == _OURS else F.lit(None).cast("bigint")
    return rows.select(
        F.lit(table).alias(_TABLE),
        F.lit(kind).alias(_KIND),
        F.col(_IDENTITY),
        ordinal.alias(envelope.ORDINAL),
    )


def _of(rows: pa.Table, table: str, kind: int) -> pa.Table:
    import pyarrow.compute as pc

    return rows.filter(pc.and_(pc.equal(rows[_TABLE], table), pc.equal(rows[_KIND], kind)))


def _identified(rows: DataFrame, *, natural: bool) -> DataFrame:
    """Rows that have an identity, once with each."""
    from pyspark.sql import functions as F  # noqa: N812

    identities = [F.when(F.col(envelope.EVENT_ID) != "", F.col(envelope.EVENT_ID))]
    if natural:
        members = [F.col(HEADER)[name] for name in _NATURAL]
        whole = reduce(lambda one, other: one & other, [part.isNotNull() for part in members])
        text = F.to_json(
            F.struct(*(part.alias(name) for part, name in zip(members, _NATURAL, strict=True)))
        )
        identities.append(F.when(whole & (F.col(HEADER)["transactionKey"] != ""), text))
    each = F.explode(F.array_compact(F.array(*identities)))
    return rows.select("*", each.alias(_IDENTITY))


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
    return all(name in members and members[name].kind in of for name, of in _NATURAL.items())


def _sql(*, natural: bool) -> str:
    return f"{_ROW_SQL}, {_HEADER_SQL}" if natural else _ROW_SQL
