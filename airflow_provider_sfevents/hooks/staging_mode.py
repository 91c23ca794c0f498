"""Modes of staged files from Airflow's configuration: `[sfevents] staging_mode`."""

from __future__ import annotations

import grp
import os

from airflow.sdk.configuration import conf

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.hooks.executors import SECTION
from airflow_provider_sfevents.staging.storage import file_modes

MODE, GROUP = "staging_mode", "staging_group"


def configured_modes() -> file_modes.Modes:
    """Read both settings from Airflow's configuration.

    :raises ConfigurationError: a setting is wrong, or contradicts the other one.
    """
    mode = conf.get(SECTION, MODE, fallback=file_modes.PRIVATE.name)
    return modes_of(str(mode).strip(), str(conf.get(SECTION, GROUP, fallback="") or "").strip())


def modes_of(mode: str, group: str) -> file_modes.Modes:
    """Return the modes for the values of both settings; raises as `configured_modes`."""
    if mode not in file_modes.NAMES:
        raise ConfigurationError(
            f"{file_modes.OPTION} = {mode} is none of {', '.join(file_modes.NAMES)}. Set one of "
            "these."
        )
    if mode != "group":
        if group:
            raise ConfigurationError(
                f"[{SECTION}] {GROUP} = {group} has no effect with {file_modes.OPTION} = {mode}. "
                f"Set {file_modes.OPTION} = group, or remove it."
            )
        return file_modes.PRIVATE if mode == "private" else file_modes.INHERIT
    if not group:
        raise ConfigurationError(
            f"{file_modes.OPTION} = group needs the name of a group: set [{SECTION}] {GROUP}."
        )
    return file_modes.group(_gid(group))


def _gid(group: str) -> int:
    try:
        gid = grp.getgrnam(group).gr_gid
    except KeyError:
        raise ConfigurationError(
            f"[{SECTION}] {GROUP} = {group}: this machine has no such group. Create it, or name"
            " another one."
        ) from None
    if os.geteuid() and gid not in {os.getegid(), *os.getgroups()}:
        raise ConfigurationError(
            f"[{SECTION}] {GROUP} = {group}: the task's user (uid {os.geteuid()}) is no member of"
            " that group. Add it, restart the worker, and run the task again."
        )
    return gid
