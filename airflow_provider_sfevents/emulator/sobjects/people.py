"""Person accounts: an account that is a person, and the contact behind it. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_sfevents.emulator.sobjects.definitions import SObject

LINK = "PersonContactId"
_NAMES = ("Salutation", "FirstName", "LastName")


def is_person(sobject: SObject, given: Mapping[str, Any]) -> bool:
    """Whether a new record is a person: an account, in an org that has such, with a last name."""
    return sobject.name == "Account" and LINK in sobject.fields and bool(given.get("LastName"))


def as_contact(sobject: SObject, given: Mapping[str, Any]) -> dict[str, Any]:
    """What an account's values are to its contact: `PersonEmail` is `Email`, names are names."""
    if sobject.name != "Account" or LINK not in sobject.fields:
        return {}
    return {
        name.removeprefix("Person"): value
        for name, value in given.items()
        if name in _NAMES or (name.startswith("Person") and name != LINK)
    }
