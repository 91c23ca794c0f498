from __future__ import annotations

import importlib.metadata

import pytest

from airflow_provider_sfevents.doctor.findings import CheckStatus, Finding
from airflow_provider_sfevents.doctor.version_checks import version_finding

INSTALLED = {"pyspark": "4.1.1", "pyspark-client": "4.1.1", "grpcio": "1.80.0"}
REQUIRED = ("grpcio>=1.76", "pyspark==4.1.1", "trustme>=1.1; extra == 'emulator'")


def look(**changes: str) -> Finding:
    """Return the line with these versions over right ones; an empty one is not installed."""
    found = {**INSTALLED, **{name.replace("_", "-"): value for name, value in changes.items()}}

    def version(name: str) -> str:
        if not found.get(name):
            raise importlib.metadata.PackageNotFoundError(name)
        return found[name]

    return version_finding(REQUIRED, version)


def test_right_versions_are_shown() -> None:
    """Extras are not required."""
    line = look()
    assert line.status is CheckStatus.OK
    assert "grpcio 1.80.0, " in line.seen


@pytest.mark.parametrize(
    ("changes", "seen", "remedy"),
    [
        ({"grpcio": "1.62.0"}, "grpcio is 1.62.0, and >=1.76 is required.", "'grpcio>=1.76'"),
        ({"grpcio": ""}, "grpcio is missing, and >=1.76 is required.", "'grpcio>=1.76'"),
        ({"pyspark_client": "4.2.0"}, "pyspark-client is 4.2.0", "pip install --force-reinstall"),
        (
            {"pyspark": "4.0.0", "pyspark_client": "4.0.0"},
            "pyspark is 4.0.0, and ==4.1.1 is required.",
            "'pyspark==4.1.1'",
        ),
    ],
)
def test_a_wrong_version_is_named_with_the_command(
    changes: dict[str, str], seen: str, remedy: str
) -> None:
    """The line has the found version, the required one and the command."""
    line = look(**changes)
    assert line.status is CheckStatus.FAILED
    assert seen in line.seen
    assert remedy in line.remedy


def test_this_python_has_the_right_versions() -> None:
    """The installed packages fit the installed distribution."""
    line = version_finding()
    assert line.status is CheckStatus.OK, line.seen
