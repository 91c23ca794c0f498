"""Identities of the events that were applied or kept: the table `seen`.

The identities of a batch count once the batch is applied. A job that died may have written those of
a batch that was not: they count for nothing, and the next run removes them. That batch may never
come again, if a user sets the position, and its events are then delivered in other batches.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_sfevents.spark.changes import tables
from airflow_provider_sfevents.spark.changes.transactions import SEEN_FOR
from airflow_provider_sfevents.spark.current_state import state_merges, state_tables
from airflow_provider_sfevents.spark.current_state.frames import once, together
from airflow_provider_sfevents.spark.current_state.state_commits import commit
from airflow_provider_sfevents.spark.schema.envelope import GONE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from airflow_provider_sfevents.spark.changes.source import ChangeBatch, Progress
    from airflow_provider_sfevents.spark.current_state.apply_run import ApplyRun
    from airflow_provider_sfevents.spark.current_state.state_tables import StateTables

_KEY = ["event_identity", *tables.EVENT_ORDER]
_SWEEP_EVERY = 10

FIRST = ("seen_generation", "seen_batch_number", "seen_ordinal")
"""Names of the parts of the order at which an identity was seen first."""
MET_SQL = ", ".join(("event_identity string", *(f"{name} bigint" for name in FIRST)))
"""Columns of identities that were seen before."""


def seen_before(state: StateTables, progress: Progress | None) -> DataFrame:
    """Select the identities of the batches that were applied, of one version of the table."""
    seen = state.rows(state_tables.SEEN, tables.SEEN_SQL, pinned=True)
    return seen.where(f"NOT ({_never_applied(progress)})")


def met(seen: DataFrame, events: DataFrame) -> DataFrame:
    """Select the identities of events that were seen before, as rows of `MET_SQL`.

    Hashes of the events' identities go to the executors, and `seen` is not shuffled. Two identities
    with one hash make a row that is joined with nothing later.

    :param seen: by `seen_before`.
    """
    from pyspark.sql import functions as F  # noqa: N812 - the usual name

    hashes = events.where("event_identity <> ''").selectExpr(
        "xxhash64(event_identity) AS identity_hash"
    )
    is_one = F.expr("xxhash64(event_identity) = identity_hash")
    order = tables.EVENT_ORDER
    return (
        seen.join(F.broadcast(hashes), is_one, "left_semi")
        .groupBy("event_identity")
        .agg(F.expr(f"min(struct({', '.join(order)})) AS first"))
        .selectExpr(
            "event_identity",
            *(f"first.{part} AS {name}" for part, name in zip(order, FIRST, strict=True)),
        )
    )


def see(run: ApplyRun, batch: ChangeBatch, progress: Progress | None, rows: DataFrame) -> None:
    """Record identities; remove those that count for nothing, and at every tenth batch old ones.

    They are appended, because they are known to be new. If a concurrent run appends the same ones,
    the lowest order counts. If there are some to remove, all is one commit.

    :param progress: as before the batch.
    :param rows: the new identities, each with the order of its event.
    """
    from pyspark.sql import functions as F  # noqa: N812 - the usual name

    rows = rows.select(*_KEY, F.lit(batch.opened_at).alias("seen_at"))
    with run.giving_way():
        over = _over(run, batch, progress, rows)

    def write() -> None:
        if over is None:
            run.state.append(state_tables.SEEN, rows, writer=run.token)
            return
        both = [rows.selectExpr("*", f"false AS {GONE}"), over.selectExpr("*", f"true AS {GONE}")]
        merge = partial(state_merges.merge, keys=_KEY, columns=rows.columns, removes=True)
        run.state.merge(state_tables.SEEN, together(both), merge, writer=run.token)

    commit(run, state_tables.SEEN, write)


def _over(
    run: ApplyRun, batch: ChangeBatch, progress: Progress | None, rows: DataFrame
) -> DataFrame | None:
    """Find the identities to remove; None if there are none, and it is not the turn of old ones."""
    from pyspark.sql import functions as F  # noqa: N812 - the usual name

    is_over = F.expr(_never_applied(progress))
    is_turn = batch.batch_number % _SWEEP_EVERY == 0
    if is_turn:
        is_over |= F.col("seen_at") < F.lit(batch.opened_at - SEEN_FOR)
    seen = run.state.rows(state_tables.SEEN, tables.SEEN_SQL).where(is_over)
    if not is_turn and seen.isEmpty():
        return None
    # Read first: Spark cannot plan a MERGE for Iceberg whose source reads its target.
    over = seen.distinct().join(rows.select(*_KEY), _KEY, "left_anti").select(*rows.columns)
    return once(run.state.spark, over, f"{run.folder}/old", few=False)


def _never_applied(progress: Progress | None) -> str:
    """SQL condition for identities of events whose batch was not applied to its end.

    It compares columns, not structs, so that files are skipped by their statistics.
    """
    if progress is None:
        return "true"
    generation, batch_number = progress.generation, progress.batch_number
    return (
        f"(event_generation > {generation} OR event_generation = {generation} "
        f"AND event_batch_number > {batch_number})"
    )
