"""A server that has imported Airflow and forks a supervisor for every attempt at a task.

`python -m tests.harness.warm_airflow`. To import Airflow takes seconds, an attempt then takes one.
Everything else is real: Airflow's own supervisor forks the task's process, which loads the DAG file
and speaks with the Execution API, which writes the database of the attempt's own world. Only the
scheduler is simulated: the server makes the run, queues the task, and queues the next try after a
death.

Orders come as JSON lines on stdin, answers go as JSON lines to stdout: `{"ready": ...}` once,
`{"pid": ...}` for each order, `{"ended": pid, "status": ...}` at the end of that supervisor.

The server does not use gRPC, because the forked child of a process that used it hangs.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import selectors
import signal
import sys
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tests.harness import skew, stops

if TYPE_CHECKING:
    from collections.abc import Mapping

FIRST_DATE = datetime(2026, 3, 1, tzinfo=UTC)


def main() -> None:
    _import_everything()
    _say(ready=os.getpid())
    waited, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    with selectors.DefaultSelector() as selector:
        selector.register(waited, selectors.EVENT_READ)
        selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
        rest = b""
        while True:
            ready = {key.fd for key, _ in selector.select()}
            if waited in ready:
                os.read(waited, 4096)
                _tell_the_dead()
            if sys.stdin.fileno() in ready:
                data = os.read(sys.stdin.fileno(), 65536)
                if not data:
                    return
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    _say(pid=_fork(json.loads(line)))


def _say(**said: object) -> None:
    os.write(1, f"{json.dumps(said)}\n".encode())


def _tell_the_dead() -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        _say(ended=pid, status=os.waitstatus_to_exitcode(status))


def _import_everything() -> None:
    """Import the modules of an attempt, but none that starts a thread."""
    import a2wsgi  # noqa: F401
    import airflow.settings  # noqa: F401
    import alembic.command  # noqa: F401
    import fastavro  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    from airflow.dag_processing import dagbag  # noqa: F401
    from airflow.dag_processing.bundles import local  # noqa: F401
    from airflow.executors import workloads  # noqa: F401
    from airflow.sdk.execution_time import task_runner  # noqa: F401
    from airflow.sdk.execution_time.supervisor import in_process_api_server
    from sqlalchemy.orm import configure_mappers

    from airflow_provider_sfevents.operators import sfevents  # noqa: F401
    from airflow_provider_sfevents.positions import asset, variable, xcom  # noqa: F401
    from airflow_provider_sfevents.pubsub import client  # noqa: F401
    from airflow_provider_sfevents.sensors import sfevents as sensor  # noqa: F401
    from airflow_provider_sfevents.staging.parts import part_writer  # noqa: F401
    from airflow_provider_sfevents.triggers import sfevents as triggers  # noqa: F401

    configure_mappers()
    asyncio.run(ask_something(in_process_api_server()))
    keep_for_forks()


def keep_for_forks() -> None:
    """Exclude all present objects from garbage collection.

    Otherwise a collection in each fork would copy their memory, which takes longer than its work.
    """
    gc.collect()
    gc.freeze()


async def ask_something(api: Any) -> None:
    """Make one request to the Execution API, so that it builds its routes before the fork.

    Building them takes longer than everything else in an attempt.
    """
    import httpx

    async with httpx.AsyncClient(transport=api.atransport, base_url="http://in-process") as client:
        await client.get("/nothing")


def _fork(order: Mapping[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 70
    try:
        status = _attempt(order)
    except BaseException:  # noqa: BLE001 - no fork may return into the server's loop
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _attempt(order: Mapping[str, Any]) -> int:
    """Run one try of one task under a supervisor, or another program, in the fork.

    Return 0 if the task succeeded or was skipped.
    """
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # see `stops`
    log = os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, handle in ((0, nothing), (1, log), (2, log)):
        os.dup2(handle, number)
    os.environ.update(order["environment"])
    _open_database()
    stops.install(order["report"], order["stop_at"])
    stops.install_signal(order["report"], os.environ.get(stops.SIGNAL, ""))
    skew.install(float(os.environ.get(skew.SECONDS, "0")))
    if program := order.get("program"):
        return int(import_module(program).main(order["report"]))
    state = _supervise(order)
    stops.say(order["report"], state=state)
    return 0 if state in {"success", "skipped"} else 1


def _open_database() -> None:
    """Open the world's own database instead of the server's."""
    from airflow import settings

    settings.dispose_orm()
    settings.configure_vars()
    settings.configure_orm()


def _supervise(order: Mapping[str, Any]) -> str:
    from airflow.executors.workloads import BundleInfo
    from airflow.executors.workloads.task import TaskInstanceDTO
    from airflow.sdk.execution_time.supervisor import InProcessTestSupervisor, supervise_task
    from airflow.utils.session import create_session

    with create_session() as session:
        instance = _queued(order, session)
        session.flush()
        task = TaskInstanceDTO.model_validate(instance, from_attributes=True)
        place = instance.dag_model.bundle_name, instance.dag_model.relative_fileloc
    supervise_task(
        ti=task,
        bundle_info=BundleInfo(name=place[0], version=None),
        dag_rel_path=place[1],
        token="",
        client=InProcessTestSupervisor._api_client(),
        log_path=None,
        subprocess_logs_to_stdout=False,
    )
    with create_session() as session:
        return _state(order, session)


def _queued(order: Mapping[str, Any], session: Any) -> Any:
    """Queue the task as the scheduler does, in a new run or for its next try."""
    from airflow.models.dagrun import DagRun
    from sqlalchemy import select

    dag = _registered(order["dag"], session)
    run_id = f"run-{order['run']:05}"
    run = session.scalar(
        select(DagRun).where(DagRun.dag_id == order["dag"], DagRun.run_id == run_id)
    )
    if run is None:
        run = _new_run(dag, run_id, order["run"], session)
    instance = run.get_task_instance(order["task"], session=session)
    # One that was deferred or rescheduled goes on with its try.
    if not instance.next_method and instance.state != "up_for_reschedule":
        if instance.try_number:
            instance.prepare_db_for_next_try(session)
        instance.try_number += 1
    instance.state = "queued"
    session.flush()
    return instance


def _registered(dag_id: str, session: Any) -> Any:
    """Return the DAG from the database; the first time, parse its file."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import BundleDagBag, sync_bag_to_db
    from airflow.models.dagbag import DBDagBag

    if (dag := DBDagBag().get_latest_version_of_dag(dag_id, session=session)) is not None:
        return dag
    manager = DagBundlesManager()
    manager.sync_bundles_to_db(session=session)
    session.commit()
    [bundle] = manager.get_all_dag_bundles()
    bundle.initialize()
    bag = BundleDagBag(dag_folder=bundle.path, bundle_path=bundle.path, bundle_name=bundle.name)
    if bag.import_errors:
        raise RuntimeError(str(bag.import_errors))
    sync_bag_to_db(bag, bundle.name, bundle.version, session=session)
    session.commit()
    return DBDagBag().get_latest_version_of_dag(dag_id, session=session)


def _new_run(dag: Any, run_id: str, number: int, session: Any) -> Any:
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    date = FIRST_DATE + timedelta(hours=number)
    return dag.create_dagrun(
        run_id=run_id,
        logical_date=date,
        data_interval=(date, date),
        run_after=date,
        run_type=DagRunType.MANUAL,
        state="running",
        triggered_by=DagRunTriggeredByType.TEST,
        start_date=date,
        session=session,
    )


def _state(order: Mapping[str, Any], session: Any) -> str:
    from airflow.models.taskinstance import TaskInstance
    from sqlalchemy import select

    return str(
        session.scalar(
            select(TaskInstance.state).where(
                TaskInstance.dag_id == order["dag"],
                TaskInstance.run_id == f"run-{order['run']:05}",
                TaskInstance.task_id == order["task"],
            )
        )
    )


if __name__ == "__main__":
    main()
