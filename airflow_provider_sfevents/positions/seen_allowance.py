"""Allowance of an org as a task last saw it, in an Airflow Variable. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

_PREFIX = "sfevents_allowance."  # no position's: those begin with `sfevents.`


def allowance_key(org_id: str) -> str:
    """Return the key of the Variable."""
    return f"{_PREFIX}{org_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenAllowance:
    """Deliveries of 24 hours that an org had left.

    :param at: time at which the org said so; ISO-8601, UTC.
    """

    name: str
    most: int
    left: int
    at: str

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> SeenAllowance | None:
        """Parse a record; None: it is none."""
        try:
            value = json.loads(text)
            return cls(
                name=str(value["name"]),
                most=int(value["most"]),
                left=int(value["left"]),
                at=str(value["at"]),
            )
        except (ValueError, TypeError, KeyError, OverflowError):
            return None
