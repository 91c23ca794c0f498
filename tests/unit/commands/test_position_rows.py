from __future__ import annotations

from airflow_provider_sfevents.commands.position_rows import rows
from airflow_provider_sfevents.positions.record_text import variable_key
from tests.unit.positions.building import TOPIC, begun

A, B = (f"Variable {variable_key(one, TOPIC)!r}" for one in "ab")
RECORDS = [
    (B, begun(consumer="b").to_json()),
    ("Variable 'x'", "rubbish"),
    (A, begun(consumer="a", batch_number=2, replay_id="0a").to_json()),
]


def test_positions_are_listed_by_consumer_and_the_unreadable_last() -> None:
    """Positions are listed by consumer with their stores, unreadable records last."""
    listed = rows(RECORDS, lambda _: 1.5, consumer=None)
    assert [(row["consumer"], row["kept_in"]) for row in listed] == [
        ("a", A),
        ("b", B),
        ("", "Variable 'x'"),
    ]
    assert [bool(row["problem"]) for row in listed] == [False, False, True]
    assert [row["age_hours"] for row in listed] == [1.5, 1.5, None]
    assert len({tuple(sorted(row)) for row in listed}) == 1, "a table needs the same columns"


def test_a_consumers_positions_are_listed_with_unreadable_records() -> None:
    """With a consumer given, its positions and all unreadable records are listed."""
    listed = rows(RECORDS, lambda _: 1.5, consumer="b")
    assert [row["consumer"] for row in listed] == ["b", ""]
