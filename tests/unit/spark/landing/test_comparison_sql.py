"""The query of a comparison, as text."""

from __future__ import annotations

from airflow_provider_sfevents.spark.landing.comparison_sql import Rows, columns, comparison

OURS = Rows(view="ours", natural=False)


def test_tables_without_landed_rows_are_compared_with_themselves() -> None:
    """Repetitions within a batch are selected from its written rows alone."""
    assert comparison([OURS], [], "00D", "/t", "e-1") == (
        "SELECT compared_table, 0 AS kind, identity, batch_ordinal FROM (SELECT compared_table, "
        "identity, batch_ordinal FROM (SELECT *, nullif(event_id, '') AS identity FROM ours "
        "WHERE event_id <> ''))"
    )


def test_all_tables_are_compared_in_one_join() -> None:
    """Landed rows of all tables are one side of the join, written rows the other one."""
    known = [Rows(view="orders", natural=False), Rows(view="changes", natural=True)]
    query = comparison([OURS], known, "00D", "/event/It's", "e-1")
    assert query.count("EXISTS (") == 1
    assert "FROM (SELECT *, nullif(event_id, '') AS identity FROM orders)" in query
    assert "FROM changes LATERAL VIEW OUTER" in query
    assert "WHERE k.batch_id = 'e-1' OR EXISTS (" in query
    assert query.count(r"event_topic = '/event/It\'s'") == 2


def test_a_change_event_has_an_identity_by_its_header() -> None:
    """The header's members are compared as JSON, if all of them are there."""
    natural = Rows(view="changes", natural=True)
    query = comparison([natural], [], "00D", "/data/ChangeEvents", "e-1")
    assert "ChangeEventHeader.`recordIds` IS NOT NULL" in query
    assert "to_json(concat(array(CAST(ChangeEventHeader.`entityName` AS STRING)" in query
    assert "ChangeEventHeader" in columns(natural=True)
    assert "ChangeEventHeader" not in columns(natural=False)
