"""Types of a table's files, beside it: `_types/<event type>/<n>.json`, the highest number counts.

They are kept for every format, since no format stores all of it (`recorded`). A landing takes a
number by creating its file exclusively. Of two landings that take the same number, the second one
plans its batch again, so that a column never gets two types. The record is written right before the
first row goes into a table, so that a batch that does not land leaves no record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_sfevents.spark.schema.event_columns import nothing_recorded
from airflow_provider_sfevents.spark.schema.recorded_types import Recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow_provider_sfevents.spark.files import Files
    from airflow_provider_sfevents.spark.schema.evolution import Evolution

TYPES = "_types"


class ColumnsMovedError(Exception):
    """Another landing has recorded columns of a table since this one read them."""


class TypeRecords:
    """Recorded types of columns, each table's as it was when first read.

    :param root: of the tables.
    :param unrecorded: returns the columns of a table without a record, by the event type's name.
    """

    def __init__(
        self, files: Files, root: str, unrecorded: Callable[[str], Recorded] = nothing_recorded
    ) -> None:
        self._files = files
        self._unrecorded = unrecorded
        self._folder = f"{root}/{TYPES}"
        self._numbers: dict[str, int] = {}

    def __call__(self, event_type: str) -> Recorded:
        """Return the recorded columns of an event type's table.

        :raises StagingError: the file is no record of columns.
        """
        number = self._numbers[event_type] = self._latest(event_type)
        if not number:
            return self._unrecorded(event_type)
        url = self._url(event_type, number)
        return Recorded.from_json(self._files.read_text(url), url)

    def keep(self, evolutions: Mapping[str, Evolution]) -> None:
        """Record the columns that tables are about to have.

        :raises ColumnsMovedError: another landing has written a newer record since the read.
        """
        for event_type, evolution in sorted(evolutions.items()):
            number = self._numbers[event_type]
            if evolution.after == evolution.before and not evolution.before.found:
                taken = self._latest(event_type) != number
            else:
                url = self._url(event_type, number + 1)
                taken = not self._files.create(url, evolution.after.to_json().encode())
            if taken:
                raise ColumnsMovedError(
                    f"The columns of {event_type} were recorded anew meanwhile."
                )
            self._numbers[event_type] = self._latest(event_type)

    def _latest(self, event_type: str) -> int:
        names = self._files.names(f"{self._folder}/{event_type}")
        numbers = (name.removesuffix(".json") for name in names if name.endswith(".json"))
        return max((int(number) for number in numbers if number.isdecimal()), default=0)

    def _url(self, event_type: str, number: int) -> str:
        return f"{self._folder}/{event_type}/{number:06d}.json"
