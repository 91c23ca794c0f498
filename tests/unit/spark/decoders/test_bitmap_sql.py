"""The table by which Spark's expressions read bitmaps; the expressions are held against the reference in `tests/spark`."""

from __future__ import annotations

from airflow_provider_sfevents.spark.decoders.bitmap_sql import digit_names


def test_each_digit_at_each_place_names_its_bits() -> None:
    """The least significant first; a bit beyond the fields has no name, so that its digit has none."""
    table = digit_names(["a", "b", "c", "d", "e"])

    assert len(table) == 32
    assert table[0x0] == []
    assert table[0x5] == ["a", "c"]
    assert table[0xF] == ["a", "b", "c", "d"]
    assert table[16 + 0x0] == []
    assert table[16 + 0x1] == ["e"]
    assert table[16 + 0x2] is None
    assert table[16 + 0x3] is None
