"""Sessions that tables are written in, opened from sessions with a user's settings."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_sfevents.spark.tables import ledger
from airflow_provider_sfevents.spark.tables.sessions import few_rows, own_session, settings_of
from tests.unit.spark.tables.test_ledger import ROW

ESCAPED = "spark.sql.parser.escapedStringLiterals"

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


def test_a_text_in_a_statement_is_what_it_was(spark: Any) -> None:
    """Settings that change texts in SQL have no effect on a ledger row, and stay the user's own."""
    users = spark.newSession()
    users.conf.set("topic", "changed")
    users.conf.set(ESCAPED, "true")
    texts = "it's \\u0041 ${topic} \"\\'\n"

    session = own_session(users, {})
    rows = session.sql(ledger.rows_sql([{"batch_id": ROW.batch_id, "consumer": texts}]))

    assert [one["consumer"] for one in rows.collect()] == [texts]
    assert users.conf.get(ESCAPED) == "true"


def test_a_default_that_spark_warns_of_is_not_set(spark: Any) -> None:
    """Spark warns of each session that has the deprecated setting, at any value."""
    assert ESCAPED not in settings_of(own_session(spark.newSession(), {}))


def test_plans_for_few_rows_end_with_their_block(spark: Any) -> None:
    """A table into which few rows are merged may have many, for which such plans are slow."""
    session = own_session(spark, {"spark.sql.shuffle.partitions": "7"})
    plans = ("spark.sql.shuffle.partitions", "spark.sql.adaptive.enabled")
    before = [session.conf.get(one) for one in plans]

    with few_rows(session):
        assert [session.conf.get(one) for one in plans] == ["2", "false"]

    assert [session.conf.get(one) for one in plans] == before == ["7", "true"]
