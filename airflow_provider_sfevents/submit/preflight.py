"""What can be known about Spark before an event is paid for: that its two wheels agree, and that spark-submit will start.

No pyspark is imported here: an Airflow worker asks, and with wheels that do not agree the import itself may fail.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.submit.java import find_java

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SPARK_SUBMIT = "spark-submit"
_DISTRIBUTION = "airflow-provider-sfevents"

# Measured on two cores: at 336,776 events of 21 fields Java's quick compiler still takes less time in all than the thorough one.
FEW_EVENTS = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """How to start spark-submit.

    :param env: what its environment needs on top of the worker's.
    :param beside_python: it belongs to the Python that runs this, which can therefore run Spark's driver.
    """

    binary: str
    env: Mapping[str, str] = field(default_factory=dict)
    beside_python: bool = False


def check_versions(version: Callable[[str], str] = importlib.metadata.version) -> None:
    """Make sure that `pyspark` and `pyspark-client` are of one version: both install into the same folder.

    This package requires one version of both; if one is upgraded alone, files of one lie over the other's jars.

    :raises ConfigurationError: they differ.
    """
    found = {}
    for name in ("pyspark", "pyspark-client"):
        try:
            found[name] = version(name)
        except importlib.metadata.PackageNotFoundError:
            return  # one alone cannot disagree
    if len(set(found.values())) > 1:
        requires = importlib.metadata.requires(_DISTRIBUTION) or []
        pins = " ".join(f"'{one}'" for one in requires if one.startswith("pyspark"))
        raise ConfigurationError(
            f"pyspark is {found['pyspark']} and pyspark-client is {found['pyspark-client']}, but both install into one folder, so that "
            "Spark breaks at run time. Install the version that this package requires of both: "
            f"pip install --force-reinstall --no-deps {pins}."
        )


def find_spark_submit(
    spark_binary: str | None = None,
    environ: Mapping[str, str] | None = None,
    pyspark_folder: Callable[[], Path | None] | None = None,
) -> Launcher:
    """Choose the spark-submit on PATH, else that of the installed pyspark: workers are often started without PATH being set.

    :param spark_binary: a name or path the user asked for; then only this one will do.
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
            f"{name} was not found on PATH{'' if spark_binary else ', and pyspark is not installed'}. Install it beside Airflow "
            "(pip install pyspark), or add Spark's bin folder to the worker's PATH, or give its path as spark_binary."
        )
    env = {"SPARK_HOME": str(folder), **_python(environ)}
    return Launcher(binary=str(bundled), env=env, beside_python=True)


def check_java(
    deploy_mode: str | None = None,
    environ: Mapping[str, str] | None = None,
    cache: Path | None = None,
) -> dict[str, str]:
    """Make sure that there is a Java for spark-submit itself.

    In cluster mode the driver runs elsewhere, but spark-submit is a Java program all the same.

    :return: what the environment needs on top of the worker's: `JAVA_HOME` unless it is right already.
    :raises ConfigurationError: there is none that Spark starts on.
    """
    environ = os.environ if environ is None else environ
    if deploy_mode == "cluster" and (
        environ.get("JAVA_HOME") or shutil.which("java", path=environ.get("PATH", ""))
    ):
        return {}
    home = find_java(environ, cache).home
    return {} if environ.get("JAVA_HOME") == home else {"JAVA_HOME": home}


def quick_start(master: str, events: int, conf: Mapping[str, str]) -> dict[str, str]:
    """Settings with which a local Spark that has little to do starts and ends sooner; none the user has set himself.

    Starting is most of what a small batch costs. Java spends nearly half of that time optimising code that will not run long enough
    to pay it back, and Spark some of it on a web page that nobody will see. Spark also writes and compiles Java for each small step of each
    query, in each task; where a query has a handful of rows, to go without takes half the time. The larger code cache is what Java has where
    it optimises fully; without, it drops code of Spark's and compiles it again.

    :param conf: what the user asked for.
    :return: settings to add to `conf`.
    """
    if not master.startswith("local"):
        return {}
    wanted = {"spark.ui.enabled": "false"}
    if events <= FEW_EVENTS:
        wanted["spark.driver.extraJavaOptions"] = (
            "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
        )
        wanted["spark.sql.codegen.factoryMode"] = "NO_CODEGEN"
    return {key: value for key, value in wanted.items() if key not in conf}


def locale(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Find what the environment needs so that Java can open files whose names are not plain ASCII.

    Without a UTF-8 locale, as in many containers and service units, a JVM reads and writes `?` in place of such letters.
    """
    environ = os.environ if environ is None else environ
    set_to = next(
        (environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if environ.get(name)), ""
    )
    return {} if "utf" in set_to.casefold() else {"LC_ALL": "C.UTF-8"}


def installed_pyspark() -> Path | None:
    """Folder of the installed pyspark; None where there is only the client, which has no Spark in it, or nothing."""
    spec = importlib.util.find_spec("pyspark")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return Path(folders[0]) if folders and (Path(folders[0]) / "jars").is_dir() else None


def _python(environ: Mapping[str, str]) -> dict[str, str]:
    return {} if environ.get("PYSPARK_PYTHON") else {"PYSPARK_PYTHON": sys.executable}
