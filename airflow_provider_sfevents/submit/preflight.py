"""Checks before the first delivery: Spark's wheels agree, spark-submit and Java are there.

Nothing here imports pyspark: with wheels of two versions the import itself may fail.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ConfigurationError, TransportError
from airflow_provider_sfevents.submit.deploy_modes import master_addresses
from airflow_provider_sfevents.submit.java import find_java
from airflow_provider_sfevents.submit.packaging import DISTRIBUTION

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

ANSWER_SECONDS = 10.0
SPARK_SUBMIT = "spark-submit"
DEFAULTS = "spark-defaults.conf"

# Measured on two cores: with 336,776 events of 21 fields a job with Java's quick compiler alone
# still takes less time than one with the optimising compiler.
FEW_EVENTS = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """Program and environment of spark-submit.

    :param env: variables that it needs in addition to the worker's environment.
    :param beside_python: it belongs to the Python of this process, so that one can run the driver.
    """

    binary: str
    env: Mapping[str, str] = field(default_factory=dict)
    beside_python: bool = False


def check_versions(version: Callable[[str], str] = importlib.metadata.version) -> None:
    """Check that `pyspark` and `pyspark-client` have the same version.

    Both install into the same folder. If one is upgraded alone, its files replace the other's.

    :raises ConfigurationError: they differ.
    """
    found = {}
    for name in ("pyspark", "pyspark-client"):
        try:
            found[name] = version(name)
        except importlib.metadata.PackageNotFoundError:
            return
    if len(set(found.values())) > 1:
        requires = importlib.metadata.requires(DISTRIBUTION) or []
        pins = " ".join(f"'{one}'" for one in requires if one.startswith("pyspark"))
        raise ConfigurationError(
            f"pyspark is {found['pyspark']} and pyspark-client is {found['pyspark-client']}, but "
            "both install into one folder, so that Spark breaks at run time. Install the version "
            f"that this package requires of both: pip install --force-reinstall --no-deps {pins}."
        )


def find_spark_submit(
    spark_binary: str | None = None,
    environ: Mapping[str, str] | None = None,
    pyspark_folder: Callable[[], Path | None] | None = None,
) -> Launcher:
    """Choose the spark-submit on PATH, otherwise that of the installed pyspark.

    Workers are often started without a PATH.

    :param spark_binary: a name or path that the user gave; then no other one is used.
    :raises ConfigurationError: there is none.
    """
    environ = os.environ if environ is None else environ
    name = spark_binary or SPARK_SUBMIT
    found = shutil.which(name, path=environ.get("PATH", ""))
    if found:
        beside = Path(found).parent == Path(sys.executable).parent
        # Any other Spark brings its own Python.
        return Launcher(binary=name, env=_python(environ) if beside else {}, beside_python=beside)
    folder = (installed_pyspark if pyspark_folder is None else pyspark_folder)()
    bundled = None if folder is None else folder / "bin" / SPARK_SUBMIT
    if spark_binary or folder is None or bundled is None or not bundled.exists():
        raise ConfigurationError(
            f"{name} was not found on PATH"
            f"{'' if spark_binary else ', and pyspark is not installed'}. Install it beside "
            "Airflow (pip install pyspark), or add Spark's bin folder to the worker's PATH, or "
            "give its path as spark_binary."
        )
    env = {"SPARK_HOME": str(folder), **_python(environ)}
    return Launcher(binary=str(bundled), env=env, beside_python=True)


def check_java(
    deploy_mode: str | None = None, environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Check that there is a Java for spark-submit itself.

    In cluster mode the driver runs elsewhere, but spark-submit is a Java program, too.

    :return: variables that are needed in addition to the worker's environment: `JAVA_HOME`, unless
        it has the right value.
    :raises ConfigurationError: there is none that Spark starts on.
    """
    environ = os.environ if environ is None else environ
    if deploy_mode == "cluster" and (
        environ.get("JAVA_HOME") or shutil.which("java", path=environ.get("PATH", ""))
    ):
        return {}
    home = find_java(environ).home
    return {} if environ.get("JAVA_HOME") == home else {"JAVA_HOME": home}


def check_master_answers(master: str, connect: Callable[[str, int], None] | None = None) -> None:
    """Check that one of the masters in `spark://a:7077,b:7077` takes connections.

    Spark itself would try for a minute and end with a stack trace. Other kinds of masters are not
    checked.

    :param connect: opens and closes a connection to a host and port.
    :raises TransportError: none does.
    """
    if not master.startswith("spark://"):
        return
    connect = connect or _connect
    said = []
    for host, port in master_addresses(master):
        try:
            connect(host, port)
        except OSError as error:
            said.append(f"{host}:{port}: {error.strerror or error}")
        else:
            return
    raise TransportError(
        f"Spark's master at {master} does not answer ({'; '.join(said)}). Nothing was fetched. "
        "Start it, or let the Spark connection name the one that is running; then run the task "
        "again."
    )


def _connect(host: str, port: int) -> None:
    with socket.create_connection((host, port), timeout=ANSWER_SECONDS):
        pass


def settings_of_file(
    properties_file: str | None, launcher: Launcher, environ: Mapping[str, str]
) -> frozenset[str]:
    """Return the names of the settings that `spark-submit` reads from its file of defaults.

    :param properties_file: file that the task names in place of `spark-defaults.conf`.
    """
    home = spark_folder(launcher, environ) or _named_home(launcher, environ)
    if not home and (found := shutil.which(launcher.binary, path=environ.get("PATH"))):
        home = Path(found).resolve().parent.parent
    folder = Path(environ.get("SPARK_CONF_DIR") or Path(home or "", "conf"))
    file = Path(properties_file) if properties_file else folder / DEFAULTS
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    lines = (line.strip() for line in text.splitlines())
    return frozenset(re.split(r"[\s=:]", one)[0] for one in lines if one and one[0] not in "#!")


def quick_start(master: str, events: int, own: Collection[str]) -> dict[str, str]:
    """Settings that let a local Spark land a small batch sooner; the user's own settings stay.

    1. Most of the time for a small batch is Spark's start. Java spends nearly half of that on
       optimising code that does not run long enough to pay it back, so it compiles quickly only.
    2. The web UI of a local job that runs for seconds is not started.
    3. Spark generates and compiles Java for each query, in each task. For a handful of rows a query
       without generated code takes half the time.
    4. The code cache has the size that Java uses with full optimisation. With its default for quick
       compilation Java would drop code of Spark and compile it again.

    :param own: names of the user's settings.
    :return: settings to add to them.
    """
    if not master.startswith("local"):
        return {}
    wanted = {"spark.ui.enabled": "false"}
    if events <= FEW_EVENTS:
        wanted["spark.driver.extraJavaOptions"] = (
            "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
        )
        wanted["spark.sql.codegen.factoryMode"] = "NO_CODEGEN"
    return {key: value for key, value in wanted.items() if key not in own}


def locale(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables with which Java can open files with names that are not ASCII.

    Without a UTF-8 locale, as in many containers and service units, a JVM reads and writes `?` in
    place of other letters.
    """
    environ = os.environ if environ is None else environ
    set_to = next(
        (environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if environ.get(name)), ""
    )
    return {} if "utf" in set_to.casefold() else {"LC_ALL": "C.UTF-8"}


def installed_pyspark() -> Path | None:
    """Folder of the installed pyspark; None without it. `pyspark-client` alone has no Spark."""
    spec = importlib.util.find_spec("pyspark")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return Path(folders[0]) if folders and (Path(folders[0]) / "jars").is_dir() else None


def spark_folder(launcher: Launcher, environ: Mapping[str, str]) -> Path | None:
    """Folder of the Spark that a launcher starts; None if it belongs to another Python."""
    if not launcher.beside_python:
        return None
    named = _named_home(launcher, environ)
    return Path(named) if named else installed_pyspark()


def _named_home(launcher: Launcher, environ: Mapping[str, str]) -> str:
    return launcher.env.get("SPARK_HOME") or environ.get("SPARK_HOME", "")


def _python(environ: Mapping[str, str]) -> dict[str, str]:
    return {} if environ.get("PYSPARK_PYTHON") else {"PYSPARK_PYTHON": sys.executable}
