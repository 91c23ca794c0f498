from __future__ import annotations

import base64
import json
import sqlite3
from typing import TYPE_CHECKING
from urllib.parse import quote_plus

import pytest

from tests.harness.leaks import Secrets, recorded, rows_of

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "s3cr+t&<x>%41/ü"
SECRETS = Secrets({"secret": SECRET, "key": "-----BEGIN\nMIIabcdef\nxyz01234\n-----END"})


@pytest.mark.parametrize(
    "text",
    [
        SECRET,
        quote_plus(SECRET),
        json.dumps({"a": SECRET}),
        repr([SECRET]),
        SECRET.encode().hex(),
        base64.b64encode(f"user:{SECRET}".encode()).decode(),
        base64.b64encode(f"users:{SECRET}".encode()).decode(),
    ],
)
def test_a_secret_is_found_in_every_spelling(text: str) -> None:
    """Quoted, escaped and encoded, with other text around it."""
    assert SECRETS.found_in(f"before {text} after") == ["secret"]


def test_each_line_of_a_key_is_a_secret() -> None:
    """A key is found when its lines were joined or torn apart; its frame is no secret."""
    assert SECRETS.found_in("MIIabcdef xyz01234") == ["key"]
    assert SECRETS.found_in("-----BEGIN") == []


@pytest.mark.parametrize("token", ["00D000000000001!AQ0A", "00D000000000001%21AQ0A"])
def test_an_access_token_is_known_by_its_shape(token: str) -> None:
    """An issued token is found by its form; an org id or a masked token is not reported."""
    assert SECRETS.found_in(f"Bearer {token}") != []
    assert SECRETS.found_in("00D000000000001AAA 00D000000000001!***") == []


def test_locals_of_all_that_led_to_an_error() -> None:
    """Locals of an error's frames are searched, without frames of the tests themselves."""

    def parse() -> None:
        try:
            json.loads(f'{{"{SECRET}"')
        except ValueError as error:
            raise RuntimeError from error

    with pytest.raises(RuntimeError) as raised:
        parse()
    found = recorded(raised.value)
    assert SECRETS.found_in(found) == ["secret"]
    assert "parse:" not in found


def test_rows_of_a_database(tmp_path: Path) -> None:
    """Texts and blobs of every table."""
    with sqlite3.connect(tmp_path / "a.db") as database:
        database.execute("CREATE TABLE one (a TEXT, b BLOB)")
        database.execute("INSERT INTO one VALUES ('x', ?)", (b"y",))
    database.close()
    assert list(rows_of(tmp_path / "a.db")) == [("one", "x\ny")]
