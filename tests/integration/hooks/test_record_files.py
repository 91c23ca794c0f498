"""Files of records: what is read from them, and what is said of those that are none."""

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
    """As UTF-8, with or without a mark at its beginning, or escaped; a line ends where a line feed is, and nowhere else."""
    file = tmp_path / "a.jsonl"
    text = "Grüße 東京 🎉\u2028\x85 x"
    plain = json.dumps({"T": text}, ensure_ascii=False).encode()
    file.write_bytes(
        b"\xef\xbb\xbf" + plain + b"\r\n" + json.dumps({"T": text}).encode() + b"\n" + plain
    )
    assert [one.record for one in read(file)] == [{"T": text}] * 3


def test_lines_that_say_nothing(tmp_path: Path) -> None:
    """Each says why, in the middle of others that are well."""
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
    """A double would round some of them unseen; the field's type then refuses them."""
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
    """Trying again would not mend it."""
    (tmp_path / "a.jsonl.gz").write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"a\.jsonl\.gz is no whole gzip file"):
        read(tmp_path / "a.jsonl.gz")


def test_a_dataframe_without_rows(tmp_path: Path) -> None:
    """Spark leaves no file but the mark that it is done: nothing is to be published."""
    (tmp_path / "_SUCCESS").touch()
    assert read(tmp_path) == []


def test_a_dataframe_that_is_being_written(tmp_path: Path) -> None:
    """Half of it would be published for the whole, be there an older part or not."""
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "part-00000.json").write_text('{"a": 1}\n')
    (tmp_path / "_temporary" / "0").mkdir(parents=True)
    with pytest.raises(ConfigurationError, match="a Spark job still writes there, or died"):
        read(tmp_path)
