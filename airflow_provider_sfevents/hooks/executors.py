"""Refuse the default staging folder if the next task may run on another machine.

`$AIRFLOW_HOME/sfevents` is a folder of one machine. With an executor that is not local each task
may have a disk of its own, so a task does not see what another one has staged.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from airflow.sdk.configuration import conf

from airflow_provider_sfevents.exceptions import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SECTION, SHARED = "sfevents", "staging_shared"

# Set in the pods of the KubernetesExecutor, where the Helm chart configures LocalExecutor.
_POD = "AIRFLOW_IS_K8S_EXECUTOR_POD"


def require_shared_default(executor: str | None) -> None:
    """Allow the default staging folder on one machine only, or if the user declares it shared.

    :param executor: the task's argument `executor`.
    :raises ConfigurationError: the message names the executor and both remedies.
    """
    if conf.getboolean(SECTION, SHARED, fallback=False):
        return
    refuse_remote(names_of(executor), _is_local, in_pod=bool(os.environ.get(_POD)))


def names_of(executor: str | None) -> list[str]:
    """Return the executors that may run the task: its own, or all configured ones.

    In `[core] executor` they are separated by commas, and by semicolons for each team; each may
    have an alias before a colon.
    """
    if executor:
        return [executor]
    configured = str(conf.get("core", "executor", fallback=""))
    of_teams = [team.rpartition("=")[2] for team in configured.split(";")]
    return [name.strip() for names in of_teams for name in names.split(",") if name.strip()]


def refuse_remote(
    names: Iterable[str], is_local: Callable[[str], bool | None], *, in_pod: bool
) -> None:
    """Refuse the default staging folder unless every executor runs tasks on this machine.

    :param is_local: whether an executor is local; None: unknown, because it cannot be loaded.
    :param in_pod: the task runs in a pod of the KubernetesExecutor.
    :raises ConfigurationError: the message names the first executor that is not local.
    """
    remote = [(name, local) for name in names if (local := is_local(name)) is not True]
    if not remote and not in_pod:
        return
    name, local = remote[0] if remote else ("KubernetesExecutor", False)
    why = (
        "may run tasks on other machines"
        if local is False
        else "cannot be loaded here, so tasks may run on other machines"
    )
    raise ConfigurationError(
        "The default staging folder ($AIRFLOW_HOME/sfevents) is on this machine's disk, and "
        f"executor {name!r} {why}; a task would not see what another task has staged. Set "
        "`staging` to an object store or to a folder that all machines mount; or, if "
        "$AIRFLOW_HOME is such a folder, set\n"
        f"[{SECTION}] {SHARED} = True\n"
        "in airflow.cfg. Nothing was fetched."
    )


def _is_local(name: str) -> bool | None:
    path = name.rpartition(":")[2]
    try:
        from airflow.executors.executor_loader import ExecutorLoader
        from airflow.sdk.module_loading import import_string

        known = ExecutorLoader.executors.get(path, path)
        if "." not in known:  # an alias, as a task names its executor
            found = ExecutorLoader.lookup_executor_name_by_str(path, validate_teams=False)
            known = found.module_path
        kind = import_string(known)
    except Exception:  # noqa: BLE001 - any import error of an executor
        return None
    return bool(kind.is_local)
