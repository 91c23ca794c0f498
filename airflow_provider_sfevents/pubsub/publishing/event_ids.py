"""Ids under which events are published: derived, random, or given by the caller. Pure.

An event has its id before it is sent, and is sent again under the same one. So a subscriber that
receives both recognises the repetition.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Sized
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.exceptions import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Identify = Callable[[int, Mapping[str, Any]], str]

_NAMESPACE = uuid.UUID("5f6b1c2e-3a0d-5f0e-9a53-7c1f5b0e4d11")


def run_namespace(*parts: object) -> uuid.UUID:
    """Namespace for the events of one task of one run.

    The same for the same parts, in every process.
    """
    return uuid.uuid5(_NAMESPACE, json.dumps([str(part) for part in parts]))


def derived_ids(namespace: uuid.UUID) -> Identify:
    """Ids that follow only from the number and the content of a record.

    The same record at the same number gets the same id in every try; other content gets another id.
    """
    return lambda number, values: str(uuid.uuid5(namespace, f"{number}:{sorted(values.items())!r}"))


def random_ids(_number: int, _values: Mapping[str, Any]) -> str:
    """A random id."""
    return str(uuid.uuid4())


def ids_of(ids: Sequence[str] | None, records: Iterable[Any]) -> Identify:
    """The given ids, one for each record; random ones if none are given.

    :raises ConfigurationError: an id is missing, blank, or repeated.
    """
    if ids is None:
        return random_ids
    count = len(records) if isinstance(records, Sized) else "an unknown number of"
    if len(ids) != count:
        raise ConfigurationError(f"{len(ids)} ids for {count} events. Give one for each.")
    counted = Counter(ids)
    wrong = [one for one in counted if counted[one] > 1 or not str(one).strip()]
    if wrong:
        raise ConfigurationError(
            f"{len(wrong)} of the ids are blank or there more than once, such as {wrong[0]!r}. "
            "Give each event an id of its own."
        )
    return lambda number, _values: ids[number - 1]
