"""Jars that kinds of addresses need, for messages if Spark has none. No I/O, no Spark."""

from __future__ import annotations

import re

_NO_STORE = re.compile(
    r"Class org\.apache\.hadoop\.fs\.(?P<kind>s3a)\.\w+ not found"
    r"|No FileSystem for scheme \"?(?P<scheme>\w+)"
    r"|Spark has no jar for (?P<said>\w+):// addresses"
)
_STORES = {
    "s3a": "org.apache.hadoop:hadoop-aws of the version of Spark's own Hadoop",
    "gs": "Google's Cloud Storage connector",
    "abfss": "org.apache.hadoop:hadoop-azure of the version of Spark's own Hadoop",
}


def no_store(text: str) -> str:
    """Name what Spark lacks for a kind of address, where it says that it knows none.

    Empty otherwise.

    :param text: of Spark, or of its log, which may have this message already.
    """
    found = _NO_STORE.search(text)
    return "" if found is None else no_jar(found["kind"] or found["scheme"] or found["said"])


def no_jar(scheme: str) -> str:
    """Say that Spark has no jar for a kind of address, and name the jar."""
    jar = _STORES.get(scheme, f"the file system of {scheme}")
    return (
        f"Spark has no jar for {scheme}:// addresses. Give it {jar}, on the driver and on "
        f"every executor: in Spark's folder jars, in the "
        "image, or by `packages` (docs/how-to/clusters.md)."
    )
