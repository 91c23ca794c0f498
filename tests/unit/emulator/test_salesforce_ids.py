"""Ids have Salesforce's form."""

from __future__ import annotations

import random

import pytest

from airflow_provider_sfevents.emulator import salesforce_ids


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("001Dp00000H8YVW", "001Dp00000H8YVWIA3"),
        ("000000000000000", "000000000000000AAA"),
        ("00DgL000000ABCd", "00DgL000000ABCdUAO"),
        ("aaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaAAA"),
        ("AAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAA555"),
    ],
)
def test_suffix_of_real_and_extreme_ids(short: str, long: str) -> None:
    """The suffix of an id states its capitals; the first example is a live org's."""
    assert salesforce_ids.long_id(short) == long
    assert salesforce_ids.is_id(long)


def test_wrong_suffix_is_no_id() -> None:
    """An id with a wrong suffix is invalid."""
    assert not salesforce_ids.is_id("001Dp00000H8YVWIA4")
    assert not salesforce_ids.is_id("001Dp00000H8YV!")
    assert not salesforce_ids.is_id("001")


def test_made_up_ids_are_ids() -> None:
    """Generated ids are valid, and different numbers have different ids."""
    source = random.Random(1)  # noqa: S311 - repeatable
    made = [salesforce_ids.random_id("00D", source) for _ in range(50)]
    assert all(salesforce_ids.is_id(one) and one.startswith("00D") for one in made)
    records = {salesforce_ids.record_id("001", number) for number in range(500)}
    assert len(records) == 500
    assert all(salesforce_ids.is_id(one) for one in records)


def test_replay_id_is_ten_bytes_of_a_live_example() -> None:
    """Position 15063888 has the replay id of a live org of 2025."""
    assert salesforce_ids.replay_id(15063888).hex() == "0000000000e5db500000"
    assert salesforce_ids.replay_id(15063888, 8).hex() == "0000000000e5db50"


@pytest.mark.parametrize("length", [8, 10])
def test_both_lengths_name_the_same_place(length: int) -> None:
    """A replay id of eight bytes and one of ten name the same position."""
    assert salesforce_ids.position_of(salesforce_ids.replay_id(15063888, length)) == 15063888


@pytest.mark.parametrize("rubbish", [b"", b"\x01", b"123456789", b"\0" * 8 + b"\0\1", b"\0" * 12])
def test_other_shapes_name_no_place(rubbish: bytes) -> None:
    """Bytes of another length, or without final zeros, are no replay id."""
    assert salesforce_ids.position_of(rubbish) is None


def test_rpc_ids_come_dashed_or_as_hex() -> None:
    """Rpc ids are available in both forms of live services."""
    assert len(salesforce_ids.rpc_id()) == 36
    assert len(salesforce_ids.rpc_id("hex32")) == 32
