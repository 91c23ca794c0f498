"""Import of the emulator's optional packages, with an installation hint."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from airflow_provider_sfevents.emulator.errors import EmulatorError

_INSTALL = "pip install 'airflow-provider-sfevents[emulator]'"


def require(module: str) -> Any:
    """Import a module.

    :raises EmulatorError: the module is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise EmulatorError(
            f"the emulator needs {error.name!r}, which is not installed: {_INSTALL}"
        ) from error
