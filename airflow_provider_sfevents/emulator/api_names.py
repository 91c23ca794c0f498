"""API names of events, objects, channels and fields.

Rules (Salesforce Help, "Developer Name" and "API Name"): letters, digits and underscores; a name
begins with a letter, does not end with an underscore and has no two underscores in a row. Two
separate a package's namespace, before the name, and the suffix behind it: `Ns__Order__e`.
"""

from __future__ import annotations

import re

from airflow_provider_sfevents.emulator.errors import EmulatorError

_PART = "[A-Za-z](?:_?[A-Za-z0-9])*"
_NAME = re.compile(f"{_PART}(?:__{_PART}){{0,2}}")


def is_api_name(name: str) -> bool:
    """True for a valid API name, with or without a namespace and a suffix."""
    return _NAME.fullmatch(name) is not None


def check(name: str, what: str) -> None:
    """Check the API name of a definition.

    :param what: kind of the named thing, for the error message.
    :raises EmulatorError: Salesforce allows no such name.
    """
    if not is_api_name(name):
        raise EmulatorError(
            f"{what} {name!r} is not an API name: use letters, digits and single underscores, and "
            "begin with a letter, as in Order_Number__c"
        )
