"""The story that demo and UI tell."""

from __future__ import annotations

from scripts.story import chapter


def test_chapters_go_on_where_the_last_one_ended() -> None:
    """A story is the same, told in chapters or at once."""
    pieces = [*chapter(0, 30), *chapter(30, 50)]
    whole = chapter(0, 80)
    assert [(one.topic, one.record_id, one.change_type) for one in pieces] == [
        (one.topic, one.record_id, one.change_type) for one in whole
    ]


def test_no_record_is_created_twice_or_changed_before_it_exists() -> None:
    """Each record is created, then updated, perhaps deleted; also across chapters."""
    alive: set[str] = set()
    for one in [happening for begin in range(0, 400, 40) for happening in chapter(begin, 40)]:
        if one.record_id:
            assert (one.change_type == "CREATE") == (one.record_id not in alive), one
            (alive.discard if one.change_type == "DELETE" else alive.add)(one.record_id)
    assert alive
