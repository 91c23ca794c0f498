"""Parser of SOQL queries and filter conditions. Pure.

Supported: fields, `FIELDS(ALL)`, `COUNT()`; `WHERE` with `= != < > <= >= IN NOT IN LIKE`, `AND`,
`OR`, `NOT` and brackets; `ORDER BY`; `LIMIT`; `OFFSET`. Everything else is refused with
MALFORMED_QUERY, as Salesforce refuses an unreadable query.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from airflow_provider_sfevents.emulator.org.record_errors import RecordRefusedError

MOST_BOUNDED = 200
"""Largest LIMIT of a query for all fields."""
_DEEPEST = 100  # brackets and NOTs around a condition
_TOKEN = re.compile(
    r"""\s*(?:(?P<text>'(?:\\.|[^'\\])*')
    |(?P<moment>\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d))?(?![\w.]))
    |(?P<number>[+-]?\d{1,300}(?:\.\d+)?(?![\w.]))
    |(?P<named>[A-Za-z_]+:\d+)
    |(?P<word>[A-Za-z][\w.]*)
    |(?P<sign><=|>=|!=|<>|[=<>(),]))""",
    re.VERBOSE,
)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_NOT_NAMES = {
    "SELECT",
    "FROM",
    "WHERE",
    "AND",
    "OR",
    "NOT",
    "ORDER",
    "LIMIT",
    "OFFSET",
    "IN",
    "LIKE",
}


@dataclass(frozen=True, slots=True)
class SoqlLiteral:
    """A literal value in a query.

    :param kind: notation: in quotes, as a number, as a date or time, as a word (true, false, null);
        in a channel's filter also a name of days (`TODAY`, `LAST_N_DAYS:7`).
    """

    kind: Literal["text", "number", "moment", "word", "named"]
    value: Any


@dataclass(frozen=True, slots=True)
class SoqlComparison:
    """A comparison: field, operator in capitals, and one value, or several for IN and NOT IN.

    :param lower: in a channel's filter, compare `LOWER()` of the field.
    """

    field: str
    operator: str
    values: tuple[SoqlLiteral, ...]
    lower: bool = False


@dataclass(frozen=True, slots=True)
class CombinedCondition:
    """Conditions joined by AND or OR, or one condition negated by NOT."""

    how: Literal["AND", "OR", "NOT"]
    parts: tuple[Condition, ...]


Condition = SoqlComparison | CombinedCondition


class SortKey(NamedTuple):
    """One sort key."""

    field: str
    descending: bool = False
    nulls_last: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A parsed query.

    :param fields: names as written; empty for all fields or a count.
    :param every: `FIELDS(ALL)`.
    """

    entity: str
    fields: tuple[str, ...] = ()
    every: bool = False
    count: bool = False
    where: Condition | None = None
    order: tuple[SortKey, ...] = ()
    limit: int | None = None
    offset: int = 0


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def parse(text: str) -> Query:
    """Parse a query.

    :raises RecordRefusedError: MALFORMED_QUERY: not SOQL, or not supported.
    """
    return _Parser(text).query()


def parse_filter(text: str) -> Condition:
    """Parse a channel member's filter: a condition that may use `LOWER()` and names of days.

    :raises RecordRefusedError: MALFORMED_QUERY: no valid condition.
    """
    return _Parser(text, filters=True).condition_alone()


class _Parser:
    """Recursive descent parser of one query or one filter."""

    def __init__(self, text: str, *, filters: bool = False) -> None:
        self._text = text
        self._filters = filters
        self._tokens = self._split()
        self._next = 0
        self._depth = 0

    def query(self) -> Query:
        self._expect("SELECT")
        fields, every, count = self._columns()
        self._expect("FROM")
        entity = self._name()
        where = self._condition() if self._take("WHERE") else None
        order = self._order() if self._take("ORDER") else ()
        limit = self._whole_number() if self._take("LIMIT") else None
        offset = self._whole_number() if self._take("OFFSET") else 0
        if self._peek().kind != "end":
            raise self._unexpected()
        if every and not 0 <= (MOST_BOUNDED + 1 if limit is None else limit) <= MOST_BOUNDED:
            raise RecordRefusedError(
                "MALFORMED_QUERY", "The SOQL FIELDS function must have a LIMIT of at most 200"
            )
        return Query(
            entity=entity,
            fields=fields,
            every=every,
            count=count,
            where=where,
            order=order,
            limit=limit,
            offset=offset,
        )

    def condition_alone(self) -> Condition:
        found = self._condition()
        if self._peek().kind != "end":
            raise self._unexpected()
        return found

    def _columns(self) -> tuple[tuple[str, ...], bool, bool]:
        if self._ahead("COUNT", "("):
            self._skip(2)
            self._expect(")")
            return (), False, True
        if self._ahead("FIELDS", "("):
            self._skip(2)
            self._expect("ALL")
            self._expect(")")
            return (), True, False
        names = [self._name()]
        while self._take(","):
            names.append(self._name())
        return tuple(names), False, False

    def _condition(self) -> Condition:
        """Parse conditions joined by AND or by OR.

        Mixing both requires brackets, as in Salesforce.
        """
        parts = [self._single()]
        how = self._peek().text.upper()
        if how not in {"AND", "OR"}:
            return parts[0]
        while self._take(how):
            parts.append(self._single())
        if self._peek().text.upper() in {"AND", "OR"}:
            raise self._unexpected()
        return CombinedCondition("AND" if how == "AND" else "OR", tuple(parts))

    def _single(self) -> Condition:
        if self._depth > _DEEPEST:
            raise self._wrong(self._peek(), "The condition is nested too deeply.")
        self._depth += 1
        try:
            if self._take("NOT"):
                return CombinedCondition("NOT", (self._single(),))
            if self._take("("):
                inside = self._condition()
                self._expect(")")
                return inside
        finally:
            self._depth -= 1
        return self._comparison()

    def _comparison(self) -> SoqlComparison:
        name, lower = self._compared()
        if self._take("IN"):
            return SoqlComparison(name, "IN", self._several(), lower)
        if self._ahead("NOT", "IN"):
            self._skip(2)
            return SoqlComparison(name, "NOT IN", self._several(), lower)
        if self._take("LIKE"):
            return SoqlComparison(name, "LIKE", (self._literal(),), lower)
        sign = self._peek().text
        if sign not in {"=", "!=", "<>", "<", ">", "<=", ">="}:
            raise self._unexpected()
        self._skip(1)
        return SoqlComparison(name, "!=" if sign == "<>" else sign, (self._literal(),), lower)

    def _compared(self) -> tuple[str, bool]:
        """Parse the compared field; the flag means lower case."""
        if not self._filters or not self._ahead("LOWER", "("):
            return self._name(), False
        self._skip(2)
        name = self._name()
        self._expect(")")
        return name, True

    def _several(self) -> tuple[SoqlLiteral, ...]:
        self._expect("(")
        found = [self._literal()]
        while self._take(","):
            found.append(self._literal())
        self._expect(")")
        return tuple(found)

    def _literal(self) -> SoqlLiteral:
        token = self._peek()
        match token.kind:
            case "text":
                value: Any = re.sub(
                    r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), token.text[1:-1]
                )
            case "number":
                value = float(token.text) if "." in token.text else int(token.text)
            case "moment":
                value = token.text
            case "word" if token.text.lower() in {"true", "false", "null"}:
                value = {"true": True, "false": False, "null": None}[token.text.lower()]
            case "word" | "named" if self._filters and token.text.upper() not in _NOT_NAMES:
                self._skip(1)
                return SoqlLiteral("named", token.text.upper())
            case _:
                raise self._unexpected()
        self._skip(1)
        return SoqlLiteral(token.kind, value)

    def _order(self) -> tuple[SortKey, ...]:
        self._expect("BY")
        found = [self._key()]
        while self._take(","):
            found.append(self._key())
        return tuple(found)

    def _key(self) -> SortKey:
        name = self._name()
        descending = self._take("DESC")
        if not descending:
            self._take("ASC")
        nulls_last = False
        if self._take("NULLS"):
            nulls_last = self._take("LAST")
            if not nulls_last:
                self._expect("FIRST")
        return SortKey(name, descending, nulls_last)

    def _name(self) -> str:
        token = self._peek()
        if token.kind != "word" or token.text.upper() in _NOT_NAMES:
            raise self._unexpected()
        self._skip(1)
        return token.text

    def _whole_number(self) -> int:
        token = self._peek()
        if token.kind != "number" or not token.text.isdigit():
            raise self._unexpected()
        self._skip(1)
        return int(token.text)

    def _split(self) -> list[_Token]:
        tokens: list[_Token] = []
        at, end = 0, len(self._text.rstrip())
        while at < end:
            found = _TOKEN.match(self._text, at)
            if found is None:
                begun = at + len(self._text[at:]) - len(self._text[at:].lstrip())
                raise self._wrong(_Token("?", self._text[begun], begun))
            kind = str(found.lastgroup)
            tokens.append(_Token(kind, found[kind], found.start(kind)))
            at = found.end()
        return [*tokens, _Token("end", "<EOF>", end)]

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _ahead(self, *words: str) -> bool:
        coming = [token.text.upper() for token in self._tokens[self._next :][: len(words)]]
        return coming == list(words)

    def _skip(self, count: int) -> None:
        self._next += count

    def _take(self, word: str) -> bool:
        token = self._peek()
        if token.kind in {"word", "sign"} and token.text.upper() == word:
            self._next += 1
            return True
        return False

    def _expect(self, word: str) -> None:
        if not self._take(word):
            raise self._unexpected()

    def _unexpected(self) -> RecordRefusedError:
        return self._wrong(self._peek())

    def _wrong(self, token: _Token, why: str = "") -> RecordRefusedError:
        return malformed(self._text, token.at, why or f"unexpected token: '{token.text}'")


def malformed(text: str, at: int, why: str, code: str = "MALFORMED_QUERY") -> RecordRefusedError:
    """Refusal that marks the position of the error, as Salesforce does."""
    shown = text[max(0, at - 40) : at + 20].replace("\n", " ")
    mark = " " * min(at, 40) + "^"
    return RecordRefusedError(code, f"\n{shown}\n{mark}\nERROR at Row:1:Column:{at + 1}\n{why}")
