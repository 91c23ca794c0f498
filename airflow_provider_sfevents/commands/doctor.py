"""`airflow sfevents doctor`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.jobs.job import most_recent_job
from airflow.utils.cli import suppress_logs_and_warning
from airflow.utils.providers_configuration_loader import providers_configuration_loaded
from airflow.utils.session import create_session

from airflow_provider_sfevents.batches.position import replay_id_age
from airflow_provider_sfevents.commands.output import command, is_for_programs, say, show_rows
from airflow_provider_sfevents.commands.position_rows import found
from airflow_provider_sfevents.commands.tasks.task_states import task_states, watchers
from airflow_provider_sfevents.commands.variable_rows import told
from airflow_provider_sfevents.doctor import findings
from airflow_provider_sfevents.doctor.airflow_findings import (
    TRIGGERER,
    SeenTriggerer,
    followed_topics,
    position_finding,
    read_positions,
    triggerer_finding,
    watcher_finding,
)
from airflow_provider_sfevents.exceptions import SfEventsError
from airflow_provider_sfevents.hooks.staging_access import staging_root
from airflow_provider_sfevents.hooks.task_thread import Stopping, run_in_thread
from airflow_provider_sfevents.operators.doctor import SfEventsDoctorOperator
from airflow_provider_sfevents.staging.area import StagingArea

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Sequence

    from airflow_provider_sfevents.doctor.findings import Finding
    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.staging.keepalive_point import KeepalivePoint

_ALL = "positions"


@suppress_logs_and_warning
@providers_configuration_loaded
@command
def run(args: Namespace) -> None:
    """Check the set-up, and show a line for each check; with `--fail` exit with code 1."""
    positions, broken = _read() if args.all else (None, [])
    task = SfEventsDoctorOperator(
        task_id="doctor",
        conn_id=args.conn_id,
        topics=args.topic or [],
        staging=args.staging,
        spark_conn_id=args.spark_conn_id,
    )
    stopping = Stopping()
    followed = None if positions is None else followed_topics(positions, datetime.now(UTC))
    of_set_up = run_in_thread(lambda: task.look({}, stopping, followed=followed), stopping)
    of_airflow = _lines(TRIGGERER, _triggerer)
    if args.all:
        of_airflow += _lines("watchers", _watchers)
        of_airflow += _lines(_ALL, lambda: _positions(positions or [], args.staging))
    _show([*of_set_up, *of_airflow, *broken], args)


def _show(lines: Sequence[Finding], args: Namespace) -> None:
    where = findings.this_process()
    rows: list[dict[str, Any]] = [one.to_row() for one in findings.at(where, lines)]
    if is_for_programs(args.output):
        show_rows(rows, args.output)
    else:
        for row in rows:
            del row["where"]
        show_rows(rows, args.output)
        say(f"Checked on {where}.")
    if args.fail and (said := findings.failure_sentence(lines)):
        raise SystemExit(said)


def _read() -> tuple[list[Position] | None, list[Finding]]:
    """Read all positions; None: they cannot be read now.

    :return: lines of the records that are none, or of the error, too.
    """
    try:
        kept, broken = read_positions(found())
    except SfEventsError as error:
        return None, [findings.failed_by(_ALL, error)]
    return [position for _, position in kept], broken


def _lines(checked: str, look: Callable[[], list[Finding]]) -> list[Finding]:
    """Return what `look` found; an error is a line of its own, and the other lines stay."""
    try:
        return look()
    except SfEventsError as error:
        return [findings.failed_by(checked, error)]


def _triggerer() -> list[Finding]:
    with told("The triggerer's heartbeat", "read"), create_session() as session:
        job = most_recent_job("TriggererJob", session=session)
        seen = job and SeenTriggerer(
            host=str(job.hostname),
            is_alive=job.is_alive(),
            heartbeat_at=job.latest_heartbeat.isoformat(timespec="seconds"),
        )
    return [triggerer_finding(seen)]


def _watchers() -> list[Finding]:
    return [watcher_finding(one) for one in watchers(datetime.now(UTC))]


def _positions(positions: Sequence[Position], staging: str | None) -> list[Finding]:
    if not positions:
        return []
    area, now = StagingArea(staging_root(staging)), datetime.now(UTC)

    def keepalive_point(position: Position) -> KeepalivePoint | None:
        folder = area.topic(position.org_id, position.consumer, position.topic)
        return replay_id_age.keepalive_point_of(folder, position)

    lines = []
    for one, state in zip(positions, task_states(positions, now), strict=True):
        try:
            lines.append(position_finding(one, keepalive_point, now, state.failed))
        except SfEventsError as error:
            lines.append(findings.failed_by(f"position {one.consumer} {one.topic}", error))
    return lines
