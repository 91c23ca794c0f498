"""Jars for tests with Delta, Iceberg, S3 or CometD, from the machine's own Maven client.

They are kept in a folder. Their versions are named only here among the tests;
`spark/tables/naming.py` names them to users. They fit the locked Spark. Without Maven, or if
Maven cannot get a jar, the test is skipped with the reason.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.spark.tables import naming

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

COMETD = "org.cometd.java:cometd-java-client:4.0.4"
HADOOP_AWS = "org.apache.hadoop:hadoop-aws:3.4.2"
OPENLINEAGE = "io.openlineage:openlineage-spark_2.13:1.53.0"
REST_CATALOG = (
    "org.apache.iceberg:iceberg-core:1.11.0",
    "org.apache.iceberg:iceberg-core:1.11.0:tests",
    "org.eclipse.jetty.ee10:jetty-ee10-servlet:12.1.14",
    "org.xerial:sqlite-jdbc:3.49.1.0",
)

_DEPENDENCY = """
<dependency><groupId>{0}</groupId><artifactId>{1}</artifactId><version>{2}</version>{3}</dependency>
"""
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
  <groupId>tests</groupId><artifactId>jars</artifactId><version>1</version>
<dependencies>{}</dependencies></project>
"""
_SECONDS = 600


class JarsMissingError(Exception):
    """Maven could not get the jars; the message says why."""


def cache_folder() -> Path:
    """Folder of the jars between runs; `SFEVENTS_JARS` names another one."""
    home = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    return Path(os.environ.get("SFEVENTS_JARS", f"{home}/sfevents-jars"))


@dataclass(frozen=True)
class Jars:
    """Paths of local jars, each fetched at its first use.

    :raises JarsMissingError: from every property, if a jar cannot be fetched.
    """

    folder: Path = field(default_factory=cache_folder)

    @cached_property
    def delta(self) -> list[Path]:
        return self.resolved(naming.JARS[naming.DELTA])

    @cached_property
    def iceberg(self) -> list[Path]:
        return self.resolved(naming.JARS[naming.ICEBERG])

    @cached_property
    def hadoop_aws(self) -> list[Path]:
        return self.resolved(HADOOP_AWS)

    @cached_property
    def openlineage(self) -> list[Path]:
        return self.resolved(OPENLINEAGE)

    @cached_property
    def rest_catalog(self) -> list[Path]:
        """Class path of Iceberg's REST server, without Hadoop's client."""
        return sorted(self._kept(*REST_CATALOG).glob("*.jar"))

    @cached_property
    def cometd(self) -> list[Path]:
        """Class path of CometD's client for Java, in the version of EMP-Connector."""
        return sorted(self._kept(COMETD).glob("*.jar"))

    def resolved(self, coordinate: str) -> list[Path]:
        """An artifact and its dependencies, without those that Spark has."""
        folder = self._kept(coordinate)
        brought = {_artifact(path) for path in _spark_jars().glob("*.jar")}
        return sorted(path for path in folder.glob("*.jar") if _artifact(path) not in brought)

    def _kept(self, *coordinates: str) -> Path:
        """Folder of artifacts and their dependencies."""
        folder = self.folder / "+".join(coordinates).replace(":", "_")
        if not folder.is_dir():
            _fetch(coordinates, folder)
        return folder


@pytest.fixture(scope="session")
def jars() -> Jars:
    """Jars from Maven; the test is skipped with the reason if one cannot be fetched."""
    return Jars()


def or_skip(wanted: Callable[[], list[Path]]) -> list[Path]:
    """Paths of jars; the test is skipped if one cannot be fetched."""
    try:
        return wanted()
    except JarsMissingError as missing:
        pytest.skip(str(missing))


def _dependency(coordinate: str) -> str:
    group, artifact, version, *classifier = coordinate.split(":")
    said = "".join(f"<classifier>{one}</classifier>" for one in classifier)
    return _DEPENDENCY.format(group, artifact, version, said)


def _fetch(wanted: Sequence[str], folder: Path) -> None:
    """Let Maven copy the jars beside the folder, and rename that atomically.

    Two processes may do it at once.
    """
    coordinate = ", ".join(wanted)
    if shutil.which("mvn") is None:
        raise JarsMissingError(
            f"{coordinate} is not in {folder}, and there is no Maven client (mvn) to get it."
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as made:
        pom = Path(made, "pom.xml")
        pom.write_text(_POM.format("".join(map(_dependency, wanted))))
        command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
        options = [f"-DoutputDirectory={made}/jars", "-DincludeScope=runtime"]
        done = subprocess.run(
            [*command, *options], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
        if done.returncode:
            said = " ".join((done.stdout + done.stderr).split())
            raise JarsMissingError(f"Maven could not get {coordinate}: {said[-500:]}")
        try:
            Path(made, "jars").rename(folder)
        except OSError:
            if not folder.is_dir():
                raise


def _spark_jars() -> Path:
    from airflow_provider_sfevents.submit.preflight import installed_pyspark

    return (installed_pyspark() or Path()) / "jars"


def _artifact(jar: Path) -> str:
    """Name of a jar without its version."""
    return re.sub(r"-\d.*$", "", jar.name)
