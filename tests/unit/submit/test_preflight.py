"""Checks of Spark before the first delivery."""

from __future__ import annotations

import errno
import importlib.metadata
import os
import socket
import sys
from pathlib import Path

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError, TransportError
from airflow_provider_sfevents.submit import preflight
from airflow_provider_sfevents.submit.preflight import (
    Launcher,
    check_java,
    check_master_answers,
    check_versions,
    find_spark_submit,
    locale,
    quick_start,
    settings_of_file,
)


def versions(**installed: str) -> None:
    def version(name: str) -> str:
        try:
            return installed[name.replace("-", "_")]
        except KeyError:
            raise importlib.metadata.PackageNotFoundError(name) from None

    check_versions(version)


def test_wheels_of_one_version_pass() -> None:
    """Wheels of one version pass, and so does either wheel alone."""
    versions(pyspark="4.1.1", pyspark_client="4.1.1")
    versions(pyspark="4.1.1")
    versions(pyspark_client="4.1.1")


def test_wheels_of_two_versions_are_refused_with_the_command_that_mends_it() -> None:
    """The error of two Spark versions names both, and the pip command for the required one."""
    with pytest.raises(
        ConfigurationError,
        match=r"pyspark is 4.10.0 and pyspark-client is 4.2.0.*"
        r"pip install --force-reinstall --no-deps 'pyspark-client==4.1.1' 'pyspark==4.1.1'\.$",
    ):
        versions(pyspark="4.10.0", pyspark_client="4.2.0")


def executable(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/bash\n")
    path.chmod(0o755)
    return path


def test_the_spark_submit_on_path_is_taken_as_it_is(tmp_path: Path) -> None:
    """A `spark-submit` on the PATH keeps its own Python and home."""
    executable(tmp_path, "spark-submit")

    assert find_spark_submit(environ={"PATH": str(tmp_path)}) == Launcher(binary="spark-submit")


def test_without_one_on_path_the_installed_pyspark_has_one(tmp_path: Path) -> None:
    """The `spark-submit` of pyspark gets its home and its Python."""
    submit = executable(tmp_path / "bin", "spark-submit")

    found = find_spark_submit(environ={"PATH": ""}, pyspark_folder=lambda: tmp_path)

    assert found == Launcher(
        binary=str(submit),
        env={"SPARK_HOME": str(tmp_path), "PYSPARK_PYTHON": sys.executable},
        beside_python=True,
    )


def test_a_python_the_user_chose_stays(tmp_path: Path) -> None:
    """`PYSPARK_PYTHON` of the user is not overwritten."""
    executable(tmp_path / "bin", "spark-submit")

    found = find_spark_submit(
        environ={"PATH": "", "PYSPARK_PYTHON": "/opt/python"}, pyspark_folder=lambda: tmp_path
    )

    assert found.env == {"SPARK_HOME": str(tmp_path)}


@pytest.mark.parametrize("asked", [None, "spark3-submit"])
def test_no_spark_submit_is_one_line_with_the_remedy(asked: str | None) -> None:
    """Without `spark-submit` the error names it and the remedy."""
    with pytest.raises(
        ConfigurationError, match=rf"{asked or 'spark-submit'} was not found on PATH.*spark_binary"
    ):
        find_spark_submit(asked, environ={"PATH": ""}, pyspark_folder=lambda: None)


def test_a_binary_that_was_asked_for_is_not_replaced_by_another(tmp_path: Path) -> None:
    """A named binary is never replaced by another one."""
    executable(tmp_path / "bin", "spark-submit")

    with pytest.raises(ConfigurationError, match="spark2-submit was not found"):
        find_spark_submit("spark2-submit", environ={"PATH": ""}, pyspark_folder=lambda: tmp_path)


def test_any_java_will_do_where_the_driver_runs_elsewhere(tmp_path: Path) -> None:
    """In cluster mode any version of Java on this machine passes."""
    executable(tmp_path, "java")

    assert check_java("cluster", environ={"PATH": str(tmp_path)}) == {}


@pytest.mark.parametrize(
    ("environ", "needed"),
    [
        ({}, {"LC_ALL": "C.UTF-8"}),
        ({"LANG": "C"}, {"LC_ALL": "C.UTF-8"}),
        ({"LC_ALL": "POSIX", "LANG": "de_DE.UTF-8"}, {"LC_ALL": "C.UTF-8"}),
        ({"LANG": "de_DE.UTF-8"}, {}),
        ({"LC_ALL": "C.utf8"}, {}),
    ],
)
def test_java_gets_a_locale_that_has_all_letters(
    environ: dict[str, str], needed: dict[str, str]
) -> None:
    """Java gets a UTF-8 locale if the worker has none."""
    assert locale(environ) == needed


def test_a_local_spark_with_little_to_do_starts_sooner() -> None:
    """Small batches on a local Spark get settings for a quick start; user settings stay."""
    options = "spark.driver.extraJavaOptions"

    assert set(quick_start("local[2]", 1_000, {})) == {
        "spark.ui.enabled",
        "spark.sql.codegen.factoryMode",
        options,
    }
    assert set(quick_start("local[*]", 1_000_000, {})) == {"spark.ui.enabled"}
    assert quick_start("yarn", 1_000, {}) == {}
    own = {
        "spark.ui.enabled": "true",
        "spark.sql.codegen.factoryMode": "FALLBACK",
        options: "-Xss4m",
    }
    assert quick_start("local", 1_000, own) == {}


@pytest.mark.parametrize(
    ("named", "environ", "names"),
    [
        (None, {}, {"spark.ui.enabled", "spark.driver.extraJavaOptions", "spark.app.name"}),
        ("own.conf", {}, {"spark.eventLog.enabled"}),
        ("missing.conf", {}, set()),
        (None, {"SPARK_CONF_DIR": "other"}, set()),
    ],
    ids=["defaults", "the task's file", "no such file", "another folder"],
)
def test_settings_of_a_file_are_found(
    tmp_path: Path, named: str | None, environ: dict[str, str], names: set[str]
) -> None:
    """Names come from the file that spark-submit reads: the task's, else `spark-defaults.conf`."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(
        "# spark.master local\n\n  spark.ui.enabled true\n"
        "spark.driver.extraJavaOptions=-Dhttp.proxyHost=proxy\nspark.app.name:one\n"
    )
    (tmp_path / "own.conf").write_text("spark.eventLog.enabled\ttrue\n")
    launcher = Launcher(binary="spark-submit", env={"SPARK_HOME": str(tmp_path)})
    file = str(tmp_path / named) if named else None
    environ = {name: str(tmp_path / folder) for name, folder in environ.items()}
    assert settings_of_file(file, launcher, environ) == names


def test_settings_of_the_wheels_spark_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wheel has a copy of spark-submit beside Python, and its file in the folder of pyspark."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.ui.enabled true\n")
    monkeypatch.setattr(preflight, "installed_pyspark", lambda: tmp_path)
    launcher = Launcher(binary="spark-submit", beside_python=True)
    environ = {"PATH": str(Path(sys.executable).parent)}
    assert settings_of_file(None, launcher, environ) == {"spark.ui.enabled"}


class Network:
    """Hosts that take connections; all others refuse."""

    def __init__(self, *up: str) -> None:
        self.up = up
        self.asked: list[tuple[str, int]] = []

    def connect(self, host: str, port: int) -> None:
        self.asked.append((host, port))
        if host not in self.up:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))


def test_one_master_of_several_is_enough() -> None:
    """One master that answers is enough, and the ones after it are not tried."""
    network = Network("b")
    check_master_answers("spark://a:7077,b:7078,c:7079", network.connect)
    assert network.asked == [("a", 7077), ("b", 7078)]


def test_no_master_is_one_line() -> None:
    """The error of silent masters names each address and its cause, and may be retried."""
    with pytest.raises(TransportError) as raised:
        check_master_answers("spark://a:7077,b:7078", Network().connect)
    assert str(raised.value) == (
        "Spark's master at spark://a:7077,b:7078 does not answer (a:7077: Connection refused; "
        "b:7078: Connection refused). Nothing was fetched. Start it, or let the Spark connection "
        "name the one that is running; then run the task again."
    )


@pytest.mark.parametrize("master", ["local[2]", "yarn", "k8s://https://k:443"])
def test_others_are_not_asked(master: str) -> None:
    """Other kinds of masters are not connected to."""
    network = Network()
    check_master_answers(master, network.connect)
    assert network.asked == []


def test_a_real_connection() -> None:
    """A listening port passes, and the same port without a listener does not."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        check_master_answers(f"spark://127.0.0.1:{port}")
    with pytest.raises(TransportError, match="Connection refused"):
        check_master_answers(f"spark://127.0.0.1:{port}")
