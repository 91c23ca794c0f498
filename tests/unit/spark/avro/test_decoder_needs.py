"""Errors for a Python that cannot decode."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.avro.decoder_needs import check_needs, wheels_missing

NOTHING: dict[str, Any] = {"driver_lacks": (), "executors_lack": (), "python": "/usr/bin/python3"}


@pytest.mark.parametrize(
    ("lacks", "said"),
    [
        (
            {"driver_lacks": ("pandas", "pyarrow")},
            r"^The driver's Python has no pandas and no pyarrow\. Install",
        ),
        (
            {"executors_lack": ("pyarrow", "fastavro", "pyruhvro")},
            r"^The executors' Python \(/usr/bin/python3\) has no fastavro and no pyarrow\."
            r".*image.*spark\.archives",
        ),
        ({"executors_lack": ("airflow_provider_sfevents", "fastavro")}, "--py-files"),
    ],
    ids=["driver", "executors", "package"],
)
def test_what_decoding_needs_is_named_in_one_line(lacks: dict[str, Any], said: str) -> None:
    """A missing module is one error with the remedy, before events are read."""
    with pytest.raises(ConfigurationError, match=said) as refused:
        check_needs(**{**NOTHING, **lacks})

    assert "\n" not in str(refused.value)


def test_the_accelerator_is_not_needed() -> None:
    """A missing accelerator is no error."""
    check_needs(**{**NOTHING, "executors_lack": ("pyruhvro",)})


def test_nothing_is_said_where_nothing_is_missing() -> None:
    """Without a missing module the text is empty."""
    assert wheels_missing("python3", ()) == ""
