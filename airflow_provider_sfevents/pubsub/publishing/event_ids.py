"""Which identity an event is published under: derived, made up, or its caller's. Pure.

An event has one before it is sent, and is sent again under the same; so whoever receives both can tell.
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
    """Sets the events of one task of one run apart from all others; the same for the same parts, in every process."""
    return uuid.uuid5(_NAMESPACE, json.dumps([str(part) for part in parts]))


def derived_ids(namespace: uuid.UUID) -> Identify:
    """Identities that follow from the place and the content of a record alone.

    The same record in the same place gets the same identity in every try; another content makes another event of it.
    """
    return lambda number, values: str(uuid.uuid5(namespace, f"{number}:{sorted(values.items())!r}"))


def random_ids(_number: int, _values: Mapping[str, Any]) -> str:
    """Identities nobody else has."""
    return str(uuid.uuid4())


def ids_of(ids: Sequence[str] | None, records: Iterable[Any]) -> Identify:
    """Identities as they are given, one for each record; random ones where none are.

    :raises ConfigurationError: an id is missing, blank, or there twice.
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
            f"{len(wrong)} of the ids are blank or there more than once, such as {wrong[0]!r}. Give each event an id of its own."
        )
    return lambda number, _values: ids[number - 1]
