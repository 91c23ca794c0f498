"""The query of a comparison, as text."""

from __future__ import annotations

from airflow_provider_sfevents.spark.landing.comparison_sql import (
    Rows,
    TableComparison,
    columns,
    comparison,
)

OURS = Rows(view="ours", natural=False)


def test_a_table_without_rows_elsewhere_is_compared_with_itself() -> None:
    """Repetitions within a batch are selected from its written rows alone."""
    query = comparison(
        [TableComparison(table="Order__e", written=OURS, own=None, others=[])], "00D", "/t", "e-1"
    )
    assert query == (
        "SELECT 'Order__e' AS compared_table, 0 AS kind, identity, batch_ordinal FROM ours "
        "LATERAL VIEW explode(array_compact(array(CASE WHEN event_id <> '' THEN event_id END))) "
        "AS identity"
    )


def test_rows_of_this_batch_are_told_of_its_own_table_alone() -> None:
    """A quarantined event is compared with the event table's rows of other batches."""
    one = TableComparison(
        table="_quarantine",
        written=OURS,
        own=Rows(view="quarantined", natural=False),
        others=[Rows(view="orders", natural=False)],
    )
    _, own, others = comparison([one], "00D", "/event/It's", "e-1").split(" UNION ALL ")
    assert "FROM quarantined " in own
    assert "WHERE k.batch_id = 'e-1' OR (NOT k.batch_id = 'e-1' AND EXISTS (" in own
    assert "FROM orders " in others
    assert "WHERE NOT k.batch_id = 'e-1' AND EXISTS (" in others
    assert r"event_topic = '/event/It\'s'" in own


def test_a_change_event_has_an_identity_by_its_header() -> None:
    """The header's members are compared as JSON, if all of them are there."""
    natural = Rows(view="changes", natural=True)
    one = TableComparison(table="AccountChangeEvent", written=natural, own=None, others=[])
    query = comparison([one], "00D", "/data/ChangeEvents", "e-1")
    assert "ChangeEventHeader.`recordIds` IS NOT NULL" in query
    assert "to_json(named_struct('entityName', ChangeEventHeader.`entityName`" in query
    assert "ChangeEventHeader" in columns(natural=True)
    assert "ChangeEventHeader" not in columns(natural=False)
