"""Settings of sessions."""

from __future__ import annotations

from typing import Any, cast

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.tables.sessions import SETTLED, settle


class Session:
    """A session that keeps its settings, except those that its cluster has fixed."""

    def __init__(self, **fixed: str) -> None:
        self.conf = self
        self.fixed = {key.replace("_", "."): value for key, value in fixed.items()}
        self.values: dict[str, str] = {}

    def set(self, key: str, value: str) -> None:
        self.values[key] = value

    def get(self, key: str) -> str:
        return {**self.values, **self.fixed}[key]


def test_settings_are_read_back_after_they_are_set() -> None:
    """A session that keeps each setting has all of them afterwards."""
    session = Session()

    settle(cast("Any", session), SETTLED)

    assert session.values == SETTLED


def test_a_setting_that_the_cluster_has_fixed_is_refused_by_name() -> None:
    """The message has the key, its value, and the value that a landing needs."""
    session = Session(spark_sql_session_timeZone="Europe/Vienna")

    with pytest.raises(
        ConfigurationError, match=r"spark\.sql\.session\.timeZone='Europe/Vienna'.*needs 'UTC'"
    ):
        settle(cast("Any", session), SETTLED)
