"""Check that the installed packages are those that this package requires. No network."""

from __future__ import annotations

import importlib.metadata
import sys
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

from airflow_provider_sfevents import __version__
from airflow_provider_sfevents.doctor.findings import failed, failed_by, ok
from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.submit.packaging import DISTRIBUTION
from airflow_provider_sfevents.submit.preflight import check_versions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from airflow_provider_sfevents.doctor.findings import Finding

CHECKED = "versions"

_SHOWN = ("apache-airflow", "grpcio", "protobuf", "pyspark")


def version_finding(
    requirements: Iterable[str] | None = None,
    version: Callable[[str], str] = importlib.metadata.version,
) -> Finding:
    """Return the line of the versions of this Python.

    :param requirements: default: those of the installed distribution of this package.
    :param version: returns the version of a distribution, or raises `PackageNotFoundError`.
    """
    try:
        check_versions(version)
    except ConfigurationError as error:
        return failed_by(CHECKED, error)
    if requirements is None:
        requirements = importlib.metadata.requires(DISTRIBUTION) or ()
    wrong, install = [], []
    for one in map(Requirement, requirements):
        if one.marker is not None and not one.marker.evaluate({"extra": ""}):
            continue
        found = _installed(one.name, version)
        if not found or not one.specifier.contains(found, prereleases=True):
            wrong.append(f"{one.name} is {found or 'missing'}, and {one.specifier} is required")
            install.append(f"'{one.name}{one.specifier}'")
    if wrong:
        return failed(
            CHECKED, f"{'; '.join(wrong)}.", f"Install there: pip install {' '.join(install)}"
        )
    python = ".".join(map(str, sys.version_info[:3]))
    shown = [f"{name} {_installed(name, version)}" for name in _SHOWN]
    return ok(CHECKED, f"{DISTRIBUTION} {__version__}, Python {python}, {', '.join(shown)}.")


def _installed(name: str, version: Callable[[str], str]) -> str:
    try:
        return version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
