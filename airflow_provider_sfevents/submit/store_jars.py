"""Kinds of addresses that a local Spark has no jars for, found before a fetch.

Only a Spark that takes all jars from its folder `jars` is checked. If an argument, a variable or a
file may name others, the job finds out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from zipfile import BadZipFile, ZipFile

from airflow_provider_sfevents.submit.preflight import DEFAULTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

_CLASSES = {
    "s3a": "org/apache/hadoop/fs/s3a/S3AFileSystem.class",
    "gs": "com/google/cloud/hadoop/fs/gcs/GoogleHadoopFileSystem.class",
    "abfss": "org/apache/hadoop/fs/azurebfs/SecureAzureBlobFileSystem.class",
}
_NAMES = {"s3a": "hadoop-aws", "gs": "gcs-connector", "abfss": "hadoop-azure"}

_NAMES_JARS = re.compile(r"jars|packages|class-?path|properties-file|\.impl=", re.IGNORECASE)
_VARIABLES = (
    "HADOOP_CONF_DIR",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_CONF_DIR",
    "SPARK_DIST_CLASSPATH",
)


def missing_store(
    addresses: Iterable[str],
    arguments: Sequence[str],
    folder: Path | None,
    environ: Mapping[str, str],
) -> str:
    """Return the first kind of address that Spark has no jar for; empty if there is none.

    :param arguments: of `spark-submit`.
    :param folder: Spark's; None if it is not known.
    """
    needed = {address.partition("://")[0] for address in addresses} & _CLASSES.keys()
    if not needed or folder is None or _may_name_jars(arguments, folder, environ):
        return ""
    return next((one for one in sorted(needed) if not _has_jar(folder / "jars", one)), "")


def _may_name_jars(arguments: Sequence[str], folder: Path, environ: Mapping[str, str]) -> bool:
    return (
        any(_NAMES_JARS.search(one) for one in (*arguments, environ.get("SPARK_SUBMIT_OPTS", "")))
        or any(environ.get(one) for one in _VARIABLES)
        or any((folder / "conf" / one).exists() for one in (DEFAULTS, "spark-env.sh"))
    )


def _has_jar(folder: Path, scheme: str) -> bool:
    """Find a jar by its usual name, otherwise by its class; a jar with another name takes 1 s."""
    jars = sorted(folder.glob("*.jar"))
    by_name = [one for one in jars if one.name.startswith(_NAMES[scheme])]
    return bool(by_name) or any(_has_class(one, _CLASSES[scheme]) for one in jars)


def _has_class(jar: Path, name: str) -> bool:
    try:
        with ZipFile(jar) as opened:
            return name in opened.NameToInfo
    except (OSError, BadZipFile):
        return False
