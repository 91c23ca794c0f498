"""Locations from Airflow's arguments: the staging area, a staged batch, the Spark job's files."""

from __future__ import annotations

import hashlib
import logging
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from airflow.configuration import AIRFLOW_HOME
from airflow.sdk import ObjectStoragePath

from airflow_provider_sfevents.exceptions import ConfigurationError, LeaseHeldError
from airflow_provider_sfevents.hooks.executors import require_shared_default
from airflow_provider_sfevents.hooks.staging_mode import configured_modes
from airflow_provider_sfevents.spark.tables.naming import check_no_pattern
from airflow_provider_sfevents.staging import layout, leases
from airflow_provider_sfevents.staging.area import StagingArea, TopicFolder
from airflow_provider_sfevents.staging.batch_folder import BatchFolder
from airflow_provider_sfevents.staging.lease_holder import LeaseHolder
from airflow_provider_sfevents.staging.storage import durable_files, file_modes
from airflow_provider_sfevents.staging.storage.staging_location import spark_url, usable
from airflow_provider_sfevents.submit import packaging

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_sfevents.staging.manifest import Manifest, Run

log = logging.getLogger(__name__)

_CLOSE = {"private": "go-rwx", "group": "g-w,o-rwx"}
"""Modes that `chmod` takes from folders and files, by the name of the setting's value."""


def staging_root(url: str | None) -> ObjectStoragePath:
    """Return the staging area's root; by default the folder `sfevents` below `AIRFLOW_HOME`.

    :raises ConfigurationError: it is no URL or absolute path, Spark would read it as a pattern,
        its store is not installed, or a staging setting is wrong.
    """
    file_modes.use(configured_modes())
    if url and not _is_absolute(url):
        raise ConfigurationError(
            f"staging={url!r} is neither a URL nor an absolute path, so each process would have an "
            "area of its own. Give a folder as file:///path or an object store as "
            "s3://bucket/path; if it is a template, give the value that it stands for."
        )
    url = url or f"file://{AIRFLOW_HOME}/sfevents"
    check_no_pattern(url, "staging")
    try:
        root = ObjectStoragePath(url)
        root.fs  # noqa: B018 - looks the store up, which says when its package is missing
    except (ValueError, ImportError) as error:
        raise ConfigurationError(
            f"staging={url!r} cannot be opened: {error}. Give a folder as file:///path or an "
            "object store as s3://bucket/path (its Airflow provider must be installed)."
        ) from error
    return root


def _is_absolute(url: str) -> bool:
    """Return whether every process takes a URL or path for the same location."""
    scheme, found, rest = durable_files.without_connection(url).partition("://")
    if found and scheme.lower() not in ("file", "local"):
        return True
    return Path(rest if found else scheme).is_absolute()


def open_staging(url: str | None, executor: str | None) -> StagingArea:
    """Open the staging area and try it out.

    :param executor: the task's argument `executor`.
    :raises StagingError: it cannot be written; raised before any event is fetched.
    :raises ConfigurationError: it is the default folder, and the next task may run on another
        machine.
    """
    if not url:
        require_shared_default(executor)
    root = staging_root(url)
    if not usable(root):
        log.warning(
            "%s lets two tasks create the same file at once; set max_active_runs=1 on every DAG "
            "that fetches.",
            root,
        )
    if durable_files.is_local(root):
        _warn_of_wider(durable_files.local_path(root))
    return StagingArea(root)


@cache  # once in each process, not with each poke of a sensor
def _warn_of_wider(root: Path) -> None:
    if folder := file_modes.wider(root):
        log.warning(
            "Other users can open %s, although %s = %s: the folder is older than the setting, or"
            " another program made it. Close it by: chmod -R %s '%s'",
            *(
                folder,
                file_modes.OPTION,
                file_modes.in_use().name,
                _CLOSE[file_modes.in_use().name],
                root,
            ),
        )


@contextmanager
def writing_state(staging: str | None, current_state: str, run: Run) -> Iterator[None]:
    """Let one task at a time write current-state tables, for the length of a block.

    A batch or an entity snapshot is applied by what the tables hold, so two such jobs must not
    overlap. Only tasks with the same `staging` see each other.

    :raises LeaseHeldError: another task is writing the tables.
    """
    name = hashlib.sha256(current_state.rstrip("/").encode()).hexdigest()[:16]
    folder = staging_root(staging) / layout.STATES / name
    try:
        lease = leases.take(folder, LeaseHolder.here(run, datetime.now(UTC).isoformat()))
    except LeaseHeldError as error:
        found = leases.holder_of(folder)
        who = found[1].describe() if found else "another task"
        raise LeaseHeldError(
            f"The tables of {current_state} are being written by {who}, and two tasks must not "
            "write them at once. This task gives way; it can continue after the other one has "
            "ended."
        ) from error
    with lease:
        yield


def open_batch(
    manifest_url: str, staging: str | None
) -> tuple[TopicFolder, BatchFolder, Manifest | None]:
    """Open a batch that another task has staged; its manifest is None if it has been removed.

    :param manifest_url: from the result of that task.
    :param staging: the argument of that task; selects the connection to read by.
    """
    path = ObjectStoragePath(manifest_url, conn_id=staging_root(staging).conn_id)
    folder = path.parent
    epoch_folder = folder.parent
    batch = BatchFolder(folder, layout.batch_id(epoch_folder.name, int(folder.name)))
    return TopicFolder(epoch_folder.parent), batch, batch.read_manifest()


def put_job(root: ObjectStoragePath, name: str = "land") -> Job:
    """Put a Spark job's files below the staging area, one set per release, for Spark to read.

    Spark runs these files as the user of the job. So each call compares them with this release and
    replaces files that differ: half a file, or a file that another user has changed.

    :param name: `land`, `apply`, `entity_snapshot`, `maintain` or `probe`.
    :raises StagingError: it cannot be written.
    """
    folder = root / layout.JOBS
    archive, modules = packaging.modules()
    target = folder / f"{name}-{Path(archive).stem.rpartition('-')[2]}.py"
    for file, content in (
        (folder / archive, modules),
        (target, packaging.application(name).read_bytes()),
    ):
        if durable_files.ensure_content(file, content):
            log.warning(
                "%s was not the file of this release and has been replaced. A crash can leave half"
                " a file; otherwise find out which user wrote it, because Spark runs this file.",
                file,
            )
    return Job(application=spark_url(target), py_files=spark_url(folder / archive))


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """URLs of the job's files, as Spark spells them."""

    application: str
    py_files: str
