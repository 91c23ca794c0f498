"""Settings of sessions."""

from __future__ import annotations

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.tables.sessions import SETTLED, check_settled


def test_settings_that_a_session_has_kept_are_accepted() -> None:
    """Other settings of the session do not matter."""
    check_settled(SETTLED, {**SETTLED, "spark.sql.shuffle.partitions": "7"})


@pytest.mark.parametrize("fixed", [{"spark.sql.session.timeZone": "Europe/Vienna"}, {}])
def test_a_setting_that_the_cluster_has_fixed_is_refused_by_name(fixed: dict[str, str]) -> None:
    """The error of a fixed setting has its key, its value and the needed value."""
    others = {key: value for key, value in SETTLED.items() if key != "spark.sql.session.timeZone"}
    found = fixed.get("spark.sql.session.timeZone")

    with pytest.raises(
        ConfigurationError, match=rf"spark\.sql\.session\.timeZone={found!r}.*needs 'UTC'"
    ):
        check_settled(SETTLED, {**others, **fixed})
