"""Search for secrets: planted ones in any usual spelling, access tokens by their shape."""

from __future__ import annotations

import base64
import html
import json
import re
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TESTS = Path(__file__).parents[1]
ISSUED = re.compile(r"00D[0-9A-Za-z]{12}(?:!|%21)[^\s*]")
"""First characters of an access token or session id from Salesforce."""

_SECRET_FIELDS = re.compile("password|token|key|passphrase|secret")


@dataclass(frozen=True, slots=True)
class Secrets:
    """Secrets by name."""

    planted: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_connection(cls, connection: Mapping[str, Any], **extra: str) -> Secrets:
        """Collect the secrets of an Airflow connection, and of extras that replace its own."""
        given = {"password": connection["password"], **connection["extra"], **extra}
        return cls(
            {name: str(value) for name, value in given.items() if _SECRET_FIELDS.search(name)}
        )

    def __or__(self, other: Secrets) -> Secrets:
        return Secrets({**self.planted, **other.planted})

    def found_in(self, text: str) -> list[str]:
        """Names of the planted secrets in a text, and the start of each access token in it."""
        found = [
            name
            for name, value in self.planted.items()
            for line in value.replace("\\n", "\n").splitlines()
            if line and "-----" not in line and any(form in text for form in spellings(line))
        ]
        return [*dict.fromkeys(found), *(f"token {one}" for one in ISSUED.findall(text))]


def spellings(secret: str) -> set[str]:
    """Spellings of a secret: plain, quoted, escaped, in hex, in base64."""
    data = secret.encode()
    forms = {secret, quote(secret, safe=""), quote_plus(secret), html.escape(secret)}
    forms |= {json.dumps(secret)[1:-1], repr(secret)[1:-1], data.hex(), data.hex().upper()}
    for offset in range(3):  # the characters before it shift its base64
        encoded = base64.b64encode(b"x" * offset + data).decode()
        forms.add(encoded[4 if offset else 0 : len(encoded) - 4])
    return {form for form in forms if len(form) > 3}


def recorded(error: BaseException) -> str:
    """Local variables of every frame of an error and its causes, without those of the tests.

    Recorders such as Sentry's capture them.
    """
    found, chain, seen = [], [error], set[int]()
    while chain:
        one = chain.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        chain += [before for before in (one.__cause__, one.__context__) if before is not None]
        trace = one.__traceback__
        while trace is not None:
            if not Path(trace.tb_frame.f_code.co_filename).is_relative_to(TESTS):
                found.append(f"{trace.tb_frame.f_code.co_name}: {trace.tb_frame.f_locals!r}")
            trace = trace.tb_next
    return "\n".join(found)


def rows_of(database: Path) -> Iterator[tuple[str, str]]:
    """Every row of a SQLite database as text, with the name of its table."""
    with sqlite3.connect(database) as opened:
        tables = opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in tables:
            for row in opened.execute(f'SELECT * FROM "{table}"'):  # noqa: S608 - Airflow's names
                yield table, "\n".join(_text(value) for value in row)
    opened.close()


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
