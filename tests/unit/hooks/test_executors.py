from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from airflow.executors import executor_loader
from airflow.executors.base_executor import BaseExecutor

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.hooks.executors import (
    names_of,
    refuse_remote,
    require_shared_default,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCAL = "airflow.executors.local_executor.LocalExecutor"
HERE = f"{__name__}.OnThisMachine"
FAR = f"{__name__}.OnAnother"


class OnThisMachine(BaseExecutor):  # type: ignore[misc]
    """A user's executor that starts processes on this machine."""

    is_local = True


class OnAnother(BaseExecutor):  # type: ignore[misc]
    """A user's executor that does not say where it starts tasks."""


@pytest.fixture(autouse=True)
def _fresh_loader(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Reset Airflow's cached executors, as each test has its own configuration."""
    monkeypatch.delenv("AIRFLOW_IS_K8S_EXECUTOR_POD", raising=False)
    kept = (
        executor_loader._alias_to_executors_per_team,
        executor_loader._module_to_executors_per_team,
        executor_loader._classname_to_executors_per_team,
        executor_loader._team_name_to_executors,
        executor_loader._executor_names,
    )
    for one in kept:
        one.clear()
    yield
    for one in kept:
        one.clear()


def configure(monkeypatch: pytest.MonkeyPatch, executors: str) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", executors)


@pytest.mark.parametrize(
    ("configured", "names"),
    [
        ("LocalExecutor", ["LocalExecutor"]),
        ("LocalExecutor, CeleryExecutor", ["LocalExecutor", "CeleryExecutor"]),
        ("near:LocalExecutor,far:a.b.Far", ["near:LocalExecutor", "far:a.b.Far"]),
        (
            "LocalExecutor;one=CeleryExecutor;two=KubernetesExecutor,a.b.Far",
            ["LocalExecutor", "CeleryExecutor", "KubernetesExecutor", "a.b.Far"],
        ),
        ("=LocalExecutor;one=CeleryExecutor", ["LocalExecutor", "CeleryExecutor"]),
    ],
)
def test_every_configured_executor_may_run_the_task(
    monkeypatch: pytest.MonkeyPatch, configured: str, names: list[str]
) -> None:
    """All entries of `[core] executor` count; the task's own argument counts alone."""
    configure(monkeypatch, configured)
    assert names_of(None) == names
    assert names_of("CeleryExecutor") == ["CeleryExecutor"]


@pytest.mark.parametrize(
    ("configured", "own"),
    [
        ("LocalExecutor", None),
        (LOCAL, None),
        (f"LocalExecutor,{HERE}", None),
        (f"near:{HERE}", "near"),
        ("near:LocalExecutor", None),
        ("LocalExecutor,CeleryExecutor", "LocalExecutor"),
        (f"LocalExecutor,{FAR}", LOCAL),
    ],
)
def test_executors_of_this_machine_may_use_the_default_folder(
    monkeypatch: pytest.MonkeyPatch, configured: str, own: str | None
) -> None:
    """With local executors the default folder is allowed: a machine has one disk."""
    configure(monkeypatch, configured)
    require_shared_default(own)


@pytest.mark.parametrize(
    ("configured", "own", "named", "why"),
    [
        (FAR, None, FAR, "may run tasks on other machines"),
        (f"LocalExecutor,far:{FAR}", None, f"far:{FAR}", "may run tasks on other machines"),
        (f"LocalExecutor,far:{FAR}", "far", "far", "may run tasks on other machines"),
        ("LocalExecutor", FAR, FAR, "may run tasks on other machines"),
        (f"LocalExecutor;one={FAR}", None, FAR, "may run tasks on other machines"),
        ("a.b.Missing", None, "a.b.Missing", "cannot be loaded here"),
        ("LocalExecutor,a.b.Missing", None, "a.b.Missing", "cannot be loaded here"),
        ("LocalExecutor", "no_such_alias", "no_such_alias", "cannot be loaded here"),
        # If its provider is installed, it can be loaded and is not local; it is refused either way.
        ("LocalExecutor,CeleryExecutor", None, "CeleryExecutor", "other machines|be loaded"),
        ("KubernetesExecutor", None, "KubernetesExecutor", "other machines|be loaded"),
    ],
)
def test_the_default_folder_is_refused_for_any_other_executor(
    monkeypatch: pytest.MonkeyPatch, configured: str, own: str | None, named: str, why: str
) -> None:
    """The error of the default folder names executor, reason and both remedies."""
    configure(monkeypatch, configured)
    with pytest.raises(ConfigurationError, match=rf"'{named}'.*({why})") as raised:
        require_shared_default(own)
    assert "\n[sfevents] staging_shared = True\n" in str(raised.value)
    assert "Set `staging` to an object store" in str(raised.value)


def test_a_pod_of_the_kubernetes_executor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod is refused although its configuration names LocalExecutor: its disk ends with it."""
    configure(monkeypatch, "LocalExecutor")
    monkeypatch.setenv("AIRFLOW_IS_K8S_EXECUTOR_POD", "True")
    with pytest.raises(ConfigurationError, match=r"'KubernetesExecutor'.*other machines"):
        require_shared_default(None)


def test_the_first_executor_that_is_not_local_is_named() -> None:
    """Of several executors the error names the first that is not local."""
    local = {"here": True, "lost": None, "far": False}
    refuse_remote(["here"], local.get, in_pod=False)
    with pytest.raises(ConfigurationError, match=r"executor 'lost' cannot be loaded here"):
        refuse_remote(["here", "lost", "far"], local.get, in_pod=False)
    with pytest.raises(ConfigurationError, match=r"executor 'far' may run tasks"):
        refuse_remote(["far", "lost"], local.get, in_pod=False)
