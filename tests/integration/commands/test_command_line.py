from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.harness.airflow_home import AirflowHome

pytestmark = pytest.mark.airflow


def test_airflow_knows_the_commands_and_a_refusal_is_one_message(airflow_home: AirflowHome) -> None:
    """The installed `airflow` has the commands; an error is one message and exit code 1."""
    ended = airflow_home.command(
        "sfevents", "position", "set", "load", "/event/Order__e", "yesterday", "--yes"
    )
    assert ended.returncode == 1, ended.stdout
    assert "The start 'yesterday' is no replay id." in ended.stdout
    assert "Traceback" not in ended.stdout
