"""Options of the source `sfevents`, checked before anything is read. No I/O, no Spark."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args
from urllib.parse import urlsplit

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.staging import layout

if TYPE_CHECKING:
    from collections.abc import Mapping

LaterFields = Literal["fail", "rescue"]

MAX_BATCHES = 100

_KNOWN = (
    "path",
    "org_id",
    "consumer",
    "topic",
    "event_type",
    "later_fields",
    "maxBatchesPerTrigger",
)
_BELOW = ("org_id", "consumer", "topic")
_CREDENTIAL = re.compile(
    r"key|secret|token|passw|pwd|credential|account|signature|\bsas\b", re.IGNORECASE
)
_ELSEWHERE = (
    "Credentials come from the environment of the driver and the executors: remove it, and set "
    "the variables that PyArrow reads there, or give the machines a role."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Options of one read.

    :param folder: URL of the topic's folder in the staging area, without a slash at its end.
    :param event_type: empty: raw payloads.
    :param later_fields: rule for a field that is in a schema staged after the query was loaded.
    :param max_batches: most staged batches of a micro-batch.
    """

    folder: str
    event_type: str = ""
    later_fields: LaterFields = "fail"
    max_batches: int = MAX_BATCHES

    @property
    def area(self) -> str:
        """URL of the file with the staging area's id."""
        return f"{self.folder.rsplit('/', 3)[0]}/{layout.AREA}"


def read_options(given: Mapping[str, str]) -> SourceOptions:
    """Read the options of `spark.read` or `spark.readStream`; names in any case.

    :raises ConfigurationError: an option is missing, unknown, invalid or a credential. The message
        has no credential's value.
    """
    options = {name.casefold(): value for name, value in given.items()}
    known = {name.casefold() for name in _KNOWN}
    for name in sorted(options.keys() - known):
        if _CREDENTIAL.search(name):
            raise ConfigurationError(f"Option {name!r} looks like a credential. {_ELSEWHERE}")
        raise ConfigurationError(
            f"The source sfevents has no option {name!r}. It has {', '.join(_KNOWN)}."
        )
    return SourceOptions(
        folder=_folder(options),
        event_type=options.get("event_type", ""),
        later_fields=_later_fields(options.get("later_fields", "fail")),
        max_batches=_max_batches(options.get("maxbatchespertrigger", str(MAX_BATCHES))),
    )


def _folder(options: Mapping[str, str]) -> str:
    path = options.get("path", "").rstrip("/")
    if not path:
        raise ConfigurationError(
            "The source sfevents needs `path`: the topic's folder in the staging area, or the "
            "root of the staging area with the options org_id, consumer and topic."
        )
    _refuse_secrets(path)
    given = [name for name in _BELOW if options.get(name)]
    if not given:
        return path
    if len(given) < len(_BELOW):
        missing = ", ".join(name for name in _BELOW if name not in given)
        raise ConfigurationError(
            "Below the root of a staging area, org_id, consumer and topic together name the "
            f"topic's folder; missing: {missing}."
        )
    return f"{path}/{layout.topic_folder(*(options[name] for name in _BELOW))}"


def _refuse_secrets(path: str) -> None:
    """Refuse a URL with a user and password, or with parameters, in which PyArrow takes keys."""
    if "://" not in path:
        return
    scheme, _, rest = path.partition("://")
    user, at, _ = urlsplit(path).netloc.rpartition("@")
    is_container = scheme.startswith("abfs") and ":" not in user
    if (at and not is_container) or "?" in rest:
        raise ConfigurationError(
            f"`path` (a URL of {scheme}) has a user, a password or parameters in it. {_ELSEWHERE}"
        )


def _later_fields(value: str) -> LaterFields:
    for choice in get_args(LaterFields):
        if value == choice:
            return choice  # type: ignore[no-any-return]
    raise ConfigurationError(f"later_fields={value!r}: give 'fail' or 'rescue'.")


def _max_batches(value: str) -> int:
    if not re.fullmatch(r"[1-9]\d*", value, re.ASCII):
        raise ConfigurationError(
            f"maxBatchesPerTrigger={value!r}: give the most staged batches of a micro-batch, a "
            "whole number from 1 on."
        )
    return int(value)
