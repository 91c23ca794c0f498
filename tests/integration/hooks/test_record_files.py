"""Files of records: the records read from them, and the errors for unreadable files."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.hooks.record_files import read_records, record_files

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_sfevents.pubsub.publishing.event_encoder import GivenRecord


def read(place: Path) -> list[GivenRecord]:
    return list(read_records(record_files(place.as_uri())))


def test_text_of_every_script(tmp_path: Path) -> None:
    """UTF-8 text is read with a byte order mark or escapes; only a line feed ends a line."""
    file = tmp_path / "a.jsonl"
    text = "Grüße 東京 🎉\u2028\x85 x"
    plain = json.dumps({"T": text}, ensure_ascii=False).encode()
    file.write_bytes(
        b"\xef\xbb\xbf" + plain + b"\r\n" + json.dumps({"T": text}).encode() + b"\n" + plain
    )
    assert [one.record for one in read(file)] == [{"T": text}] * 3


def test_lines_that_say_nothing(tmp_path: Path) -> None:
    """Each line that is no record has its reason, and the lines around it are read."""
    good = b'{"a": 1}\n'
    bad = {
        b'{"a": 1\n': "which is no JSON (Expecting ',' delimiter, column 8)",
        b'{"a": "\xff"}\n': "which is no UTF-8 (byte 8)",
        b"[" * 200_000 + b"\n": "which is not readable (",
        b'{"a": ' + b"1" * 5_000 + b"}\n": "which is not readable (",
    }
    (tmp_path / "a.jsonl").write_bytes(good + good.join(bad) + good)
    found = read(tmp_path / "a.jsonl")
    assert [one.record for one in found[::2]] == [{"a": 1}] * (len(bad) + 1)
    for one, said in zip(found[1::2], bad.values(), strict=True):
        assert one.unreadable.startswith(said)
        assert one.unreadable.endswith("each line must be one record as JSON")
    assert (found[3].number, found[3].where) == (4, "a.jsonl, line 4")


def test_numbers_are_as_they_are_written(tmp_path: Path) -> None:
    """A number that a double would round is read as a decimal, so that it can be refused."""
    written = ["0.1", "-12.50", "123456789012345.6", "1.5e3", "12345678901234567.89", "1e400"]
    lines = [f'{{"a": {number}}}' for number in written]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    found = [one.record["a"] for one in read(tmp_path / "a.jsonl")]
    assert found == [
        *(0.1, -12.5, 123456789012345.6, 1500.0),
        *(Decimal("12345678901234567.89"), Decimal("1E+400")),
    ]
    assert [type(one) for one in found] == [float] * 4 + [Decimal] * 2


COMPRESSED = gzip.compress(b'{"a": 1}\n' * 9)


@pytest.mark.parametrize(
    "content",
    [b'{"a": 1}\n', COMPRESSED[:-9], COMPRESSED[:12] + b"\xff\xff" + COMPRESSED[14:]],
    ids=["not compressed", "cut off", "broken"],
)
def test_what_is_no_gzip(tmp_path: Path, content: bytes) -> None:
    """A damaged gzip file is a configuration error, which a retry would not cure."""
    (tmp_path / "a.jsonl.gz").write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"a\.jsonl\.gz is no complete gzip file"):
        read(tmp_path / "a.jsonl.gz")


def test_a_dataframe_without_rows(tmp_path: Path) -> None:
    """A folder with Spark's `_SUCCESS` and no file holds no records."""
    (tmp_path / "_SUCCESS").touch()
    assert read(tmp_path) == []


def test_a_dataframe_that_is_being_written(tmp_path: Path) -> None:
    """A folder that Spark is still writing is refused, with or without older files."""
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "part-00000.json").write_text('{"a": 1}\n')
    (tmp_path / "_temporary" / "0").mkdir(parents=True)
    with pytest.raises(ConfigurationError, match="a Spark job is still writing, or died"):
        read(tmp_path)
