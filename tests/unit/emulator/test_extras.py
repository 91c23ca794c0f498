"""A missing extra is reported with its installation command."""

from __future__ import annotations

import pytest

from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.extras import require


def test_missing_extra_names_the_remedy() -> None:
    """The error of a missing extra names the module and the pip command."""
    with pytest.raises(
        EmulatorError,
        match=r"'no_such_module'.*pip install 'airflow-provider-sfevents\[emulator\]'",
    ):
        require("no_such_module")


def test_present_module_is_given() -> None:
    """An installed module is imported."""
    assert require("json").loads("1") == 1
