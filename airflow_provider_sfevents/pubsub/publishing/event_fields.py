"""Fields of a platform event: the values that they take, and their form in the event's schema.

Pure.

The schema's `doc` notes Salesforce's type of a field (`Data:DateTime:00N...`); Avro's own types say
less: times, dates and times of day are all `long`. A field without such a note takes any value that
fits its Avro type.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_INT = 2**31
_LONG = 2**63
_DAY_MS = 86_400_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MIDNIGHT = date(1970, 1, 1)
_ABRIDGED = 60
"""Characters of a value in a message; enough to find it, too few to leak a document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordMistake:
    """Reason why a record cannot become an event.

    :param field: empty if the record as a whole is wrong.
    :param said: value and expectation, as the end of a sentence.
    """

    field: str
    said: str

    @override
    def __str__(self) -> str:
        return f"{self.field} {self.said}" if self.field else self.said


@dataclass(frozen=True, slots=True, kw_only=True)
class EventField:
    """One field of an event.

    :param avro: its Avro type beside null.
    :param meaning: Salesforce's type from the `doc`, such as `DateOnly`; empty without one.
    """

    name: str
    avro: str
    nullable: bool
    meaning: str = ""

    @property
    def takes(self) -> str:
        """The expected value, in words."""
        return _TAKES.get(self.meaning) or _TAKES.get(
            self.avro, f"a value of Avro type {self.avro}"
        )


def fields_of(schema_json: str) -> tuple[EventField, ...]:
    """The fields of an event's Avro schema, in its order."""
    return tuple(_field(one) for one in json.loads(schema_json)["fields"])


def fit(
    record: Any, fields: Mapping[str, EventField], defaults: Mapping[str, Any]
) -> tuple[dict[str, Any], list[RecordMistake]]:
    """A record's values as Avro takes them, and all mistakes in it.

    :param fields: by name.
    :param defaults: for fields that the record leaves out or has as null.
    """
    if not isinstance(record, Mapping):
        return {}, [
            RecordMistake(field="", said=f"is {abridged(record)}; it must be fields with values")
        ]
    given = {name: value for name, value in record.items() if value is not None}
    mistakes = [_unknown(name, fields) for name in record if name not in fields]
    values: dict[str, Any] = {}
    for name, field in fields.items():
        value = given.get(name, defaults.get(name))
        if value is None:
            if not field.nullable:
                mistakes.append(
                    RecordMistake(field=name, said=f"is missing; it must be {field.takes}")
                )
            values[name] = None
            continue
        try:
            values[name] = _plain(value, field)
        except _UnfitError as unfit:
            said = f"is {abridged(value)}; it must be {unfit.expected or field.takes}"
            mistakes.append(RecordMistake(field=name, said=said))
    return values, mistakes


def abridged(value: Any) -> str:
    """A value as a message shows it, in one line."""
    text = repr(value[: 2 * _ABRIDGED] if isinstance(value, str | bytes) else value)
    text = text.replace("\n", " ")  # as a DataFrame has them
    return text if len(text) <= _ABRIDGED else f"{text[:_ABRIDGED]}..."


def near(name: Any, names: Iterable[Any]) -> str:
    """The most similar of these names, as the end of a sentence.

    Case is ignored here, but not by Salesforce.
    """
    folded = {str(one).casefold(): one for one in names}
    found = difflib.get_close_matches(str(name).casefold(), folded, n=1)
    return f"; is it {folded[found[0]]}?" if found else ""


def milliseconds(moment: datetime) -> int:
    """Milliseconds since 1970, rounded down: the schema has no finer ones.

    :param moment: aware.
    """
    past = moment - _EPOCH
    return past.days * _DAY_MS + past.seconds * 1000 + past.microseconds // 1000


class _UnfitError(ValueError):
    """A value does not fit.

    :param expected: the expected value, if the field's type does not say it.
    """

    def __init__(self, expected: str = "") -> None:
        super().__init__(expected)
        self.expected = expected


def _field(one: dict[str, Any]) -> EventField:
    union = one["type"] if isinstance(one["type"], list) else [one["type"]]
    kinds = [kind for kind in union if kind != "null"]
    # Compounds are records, defined or by name; platform events have none.
    kind = kinds[0] if len(kinds) == 1 and isinstance(kinds[0], str) else "compound"
    parts = str(one.get("doc", "")).split(":")
    return EventField(
        name=one["name"],
        avro=kind if kind in _PLAIN else "compound",
        nullable="null" in union,
        meaning=parts[1] if len(parts) > 1 else "",
    )


def _unknown(name: Any, fields: Mapping[str, EventField]) -> RecordMistake:
    return RecordMistake(field=abridged(name), said=f"is no field of the event{near(name, fields)}")


def _plain(value: Any, field: EventField) -> Any:
    convert = _PLAIN.get(field.avro)
    if convert is None:
        raise _UnfitError("left out: an address, a name or a location cannot be published")
    return convert(value, field.meaning)


def _text(value: Any, _meaning: str) -> str:
    if not isinstance(value, str):
        raise _UnfitError
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise _UnfitError("text without lone surrogates") from error
    return value


def _boolean(value: Any, _meaning: str) -> bool:
    if not isinstance(value, bool):
        raise _UnfitError
    return value


def _double(value: Any, _meaning: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise _UnfitError
    try:
        number = float(value)
    except (OverflowError, ValueError) as error:  # a signalling NaN is a ValueError
        raise _UnfitError("a finite number that a double holds") from error
    if not math.isfinite(number):
        raise _UnfitError("a finite number that a double holds")
    if not _keeps(value, number):
        raise _UnfitError(
            "a number that a double holds exactly, with up to 15 digits: round it, or publish it "
            "as text"
        )
    return number


def _keeps(value: float | Decimal, number: float) -> bool:
    """True if a double holds the same number; a decimal fraction must also have the same text."""
    if isinstance(value, Decimal):
        return value == Decimal(repr(number))
    return value == number  # exact, also of a whole number and a double


def _whole(value: Any, limit: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise _UnfitError
    try:
        number = int(value)
    except (OverflowError, ValueError) as error:  # infinite, or not a number
        raise _UnfitError from error
    if value != number:
        raise _UnfitError
    if not -limit <= number < limit:
        raise _UnfitError(f"a whole number from {-limit} to {limit - 1}")
    return number


def _int(value: Any, _meaning: str) -> int:
    return _whole(value, _INT)


def _long(value: Any, meaning: str) -> int:
    """Times of any kind: Python's types, ISO 8601 text, or milliseconds as in the schema."""
    if isinstance(value, str):
        value = _from_iso(value, meaning)
    if isinstance(value, datetime):
        return _moment(value, meaning)
    if isinstance(value, date):
        if meaning in {"DateTime", "TimeOnly"}:
            raise _UnfitError
        return (value - _MIDNIGHT).days * _DAY_MS
    if isinstance(value, time):
        return _time_of_day(value, meaning)
    number = _whole(value, _LONG)
    if meaning == "TimeOnly" and not 0 <= number < _DAY_MS:
        raise _UnfitError(f"a time of day, as milliseconds from 0 to {_DAY_MS - 1}")
    if meaning in _DATES and number % _DAY_MS:
        raise _UnfitError(_NO_DATE)
    return number


def _moment(value: datetime, meaning: str) -> int:
    if meaning == "TimeOnly":
        raise _UnfitError
    if value.tzinfo is None:
        raise _UnfitError("a time with its time zone, such as 2026-01-31T12:00:00Z")
    if meaning in _DATES and value.astimezone(UTC).time() != time(0):
        raise _UnfitError(_NO_DATE)
    return milliseconds(value)


def _time_of_day(value: time, meaning: str) -> int:
    if meaning == "DateTime" or meaning in _DATES:
        raise _UnfitError
    if value.tzinfo is not None and value.utcoffset() != timedelta(0):
        raise _UnfitError("a time of day in UTC, without another offset")
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 1000 + value.microsecond // 1000


def _from_iso(text: str, meaning: str) -> datetime | date | time:
    """Read ISO 8601 text.

    :raises _UnfitError: for other text, and if no note in the schema says what the text would mean.
    """
    readers: dict[str, Callable[[str], datetime | date | time]] = {
        "DateTime": datetime.fromisoformat,
        "TimeOnly": time.fromisoformat,
        **dict.fromkeys(_DATES, date.fromisoformat),
    }
    if meaning not in readers:
        raise _UnfitError
    try:
        return readers[meaning](text)
    except ValueError as error:
        raise _UnfitError from error


_DATES = ("DateOnly", "Birthday")
_NO_DATE = "a date, which is midnight in UTC; this is a time of day besides"
_PLAIN: dict[str, Callable[[Any, str], Any]] = {
    "string": _text,
    "boolean": _boolean,
    "double": _double,
    "int": _int,
    "long": _long,
}
_TAKES = {
    "string": "text",
    "boolean": "true or false",
    "double": "a number",
    "int": "a whole number",
    "long": "a time, or a whole number of milliseconds",
    "DateTime": "a time with its time zone (a datetime, ISO 8601, or milliseconds since 1970)",
    "DateOnly": "a date (a date, ISO 8601, or milliseconds since 1970)",
    "Birthday": "a date (a date, ISO 8601, or milliseconds since 1970)",
    "TimeOnly": "a time of day (a time, ISO 8601, or milliseconds since midnight)",
}
