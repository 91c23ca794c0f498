"""Writes of a landing: files, mark and receipt, by the package's own names and rules."""

from __future__ import annotations

from airflow_provider_sfevents.spark.landing.deduplicate import repetitions
from airflow_provider_sfevents.spark.tables import file_moves
from airflow_provider_sfevents.staging.manifest import Receipt
from tests.unit.model.world import File, Mark, landed, manifest, places, remember

_TABLE = "Order__e"


@remember
def files_of(
    text: str, bus: tuple[str, ...], known: frozenset[str] | None, attempt: str, replaces: bool
) -> tuple[File, ...]:
    """The files of a batch, by the names they are to get.

    :param known: identities that have landed in other batches; None: they are not looked at.
    :param replaces: otherwise files are named after the attempt, as an appending job's are.
    """
    batch = manifest(text)
    events = [place for part in batch.parts for place in places(part)]
    identities = [(ordinal, bus[place - 1]) for ordinal, place in enumerate(events)]
    out = set(repetitions(identities, known)) if known is not None else set()
    kept = {place for ordinal, place in enumerate(events) if ordinal not in out}
    written = {
        f"event_table={_TABLE}/event_date=2026-01-01/staged_split={index}/spark.txt": rows
        for index, part in enumerate(batch.parts)
        if (rows := tuple(place for place in places(part) if place in kept))
    }
    return tuple(
        File(
            move.target if replaces else f"{move.target}-{attempt}",
            batch.batch_id,
            written[move.source],
        )
        for move in file_moves.plan_moves(written, batch.batch_id)
    )


@remember
def left_overs(
    standing: tuple[str, ...], targets: tuple[str, ...], batch_id: str
) -> tuple[str, ...]:
    moves = [file_moves.Move(source="", target=target) for target in targets]
    return file_moves.left_overs(standing, moves, batch_id)


@remember
def mark_of(text: str, attempt: str, files: tuple[File, ...]) -> str:
    batch = manifest(text)
    rows = sum(len(file.rows) for file in files)
    return Mark(
        batch_id=batch.batch_id,
        attempt=attempt,
        events=batch.events,
        rows={_TABLE: rows} if rows else {},
        duplicates=batch.events - rows,
        files=tuple(file.name for file in files),
        staged_at=batch.created_at,
        start=batch.start,
        end=batch.end,
    ).to_json()


@remember
def receipt_of(mark: str, says_end: bool) -> str:
    said = landed(mark)
    return Receipt(
        batch_id=said.batch_id,
        events=said.events,
        tables=dict(said.rows),
        quarantined=0,
        duplicates=said.duplicates,
        written_at="",
        end=said.end if says_end else "",
    ).to_json()
