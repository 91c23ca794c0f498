"""Where things are kept, as Airflow names them: the staging area, a staged batch, the position store."""

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

from airflow_provider_sfevents.exceptions import BatchClaimed, ConfigurationError
from airflow_provider_sfevents.hooks.executors import require_shared_default
from airflow_provider_sfevents.hooks.staging_mode import configured_modes
from airflow_provider_sfevents.spark import ship
from airflow_provider_sfevents.staging import claims, durable, layout, modes
from airflow_provider_sfevents.staging.area import StagingArea, TopicFolder
from airflow_provider_sfevents.staging.batch_folder import BatchFolder
from airflow_provider_sfevents.staging.holders import Holder
from airflow_provider_sfevents.staging.places import spark_url, usable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_sfevents.staging.manifest import Manifest, Run

log = logging.getLogger(__name__)

_CLOSE = {"private": "go-rwx", "group": "g-w,o-rwx"}
"""What `chmod` takes from folders and files, by the name of the mode."""


def staging_root(url: str | None) -> ObjectStoragePath:
    """The staging area's root; by default the folder `sfevents` below `AIRFLOW_HOME`.

    :raises ConfigurationError: for a URL of no store that is installed, or wrong staging settings.
    """
    modes.use(configured_modes())
    try:
        root = ObjectStoragePath(url or f"file://{AIRFLOW_HOME}/sfevents")
        root.fs  # noqa: B018 - looks the store up, which says when its package is missing
    except (ValueError, ImportError) as error:
        raise ConfigurationError(
            f"staging={url!r} cannot be opened: {error}. Give a folder as file:///path or an object store as s3://bucket/path "
            "(its Airflow provider must be installed)."
        ) from error
    return root


def open_staging(url: str | None, executor: str | None) -> StagingArea:
    """The staging area, tried out.

    :param executor: the task's argument `executor`.
    :raises StagingError: it cannot be written; before anything is spent.
    :raises ConfigurationError: it is the default folder, and the task may run on another machine next time.
    """
    if not url:
        require_shared_default(executor)
    root = staging_root(url)
    if not usable(root):
        log.warning(
            "%s lets two tasks create the same file at once; set max_active_runs=1 on every DAG that fetches.",
            root,
        )
    if durable.is_local(root):
        _warn_of_wider(durable.local_path(root))
    return StagingArea(root)


@cache  # once in each process, not with each poke of a sensor
def _warn_of_wider(root: Path) -> None:
    if folder := modes.wider(root):
        log.warning(
            "Other users can open %s, which %s = %s would keep them out of: it was made before, or"
            " by another program. Close it by: chmod -R %s '%s'",
            *(folder, modes.OPTION, modes.in_use().name, _CLOSE[modes.in_use().name], root),
        )


@contextmanager
def writing_state(staging: str | None, current_state: str, run: Run) -> Iterator[None]:
    """Keep every other task from writing tables of records, for the length of a block.

    Applying and resolving decide by what they read there, so they must not cross. Seen by tasks with the same `staging` alone.

    :raises BatchClaimed: somebody else is at it.
    """
    name = hashlib.sha256(current_state.rstrip("/").encode()).hexdigest()[:16]
    folder = staging_root(staging) / layout.STATES / name
    try:
        claim = claims.take(folder, Holder.here(run, datetime.now(UTC).isoformat()))
    except BatchClaimed as error:
        found = claims.holder_of(folder)
        who = found[1].describe() if found else "another task"
        raise BatchClaimed(
            f"The tables of {current_state} are being written by {who}, and applying and resolving "
            "must not cross. This task gives way; it can go on when that one has ended."
        ) from error
    with claim:
        yield


def open_batch(
    manifest_url: str, staging: str | None
) -> tuple[TopicFolder, BatchFolder, Manifest | None]:
    """A batch that another task has staged; its manifest is None if it was removed since.

    :param manifest_url: as the result of that task names it.
    :param staging: as that task was given it; says by which connection to read.
    """
    path = ObjectStoragePath(manifest_url, conn_id=staging_root(staging).conn_id)
    folder = path.parent
    epoch_folder = folder.parent
    batch = BatchFolder(folder, layout.batch_id(epoch_folder.name, int(folder.name)))
    return TopicFolder(epoch_folder.parent), batch, batch.read_manifest()


def put_job(root: ObjectStoragePath, name: str = "land") -> Job:
    """Put a Spark job where Spark can read it: below the staging area, one set of files per release.

    Spark runs these files as the user of the job, so each call compares them with this release and
    replaces what differs: half a file, or one that another user has changed.

    :param name: `land`, `apply`, `resolve`, `maintain` or `probe`.
    :raises StagingError: it cannot be written.
    """
    folder = root / layout.JOBS
    archive, modules = ship.modules()
    target = folder / f"{name}-{Path(archive).stem.rpartition('-')[2]}.py"
    for file, content in (
        (folder / archive, modules),
        (target, ship.application(name).read_bytes()),
    ):
        if durable.ensure_content(file, content):
            log.warning(
                "%s was not the file of this release and has been replaced. Half of a file after a"
                " crash looks so, too; otherwise find out which user wrote there, because Spark runs"
                " this file.",
                file,
            )
    return Job(application=spark_url(target), py_files=spark_url(folder / archive))


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Where Spark finds the job, in Spark's spelling."""

    application: str
    py_files: str
