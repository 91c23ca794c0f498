"""Findings: one line for each check of the doctor. Pure."""

from __future__ import annotations

import os
import re
import socket
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from airflow_provider_sfevents.counting import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_provider_sfevents.exceptions import SfEventsError

# An error's first sentence says what was seen, and the others what to do.
_SENTENCE = re.compile(r"(?<=[.?!])\s+(?=[A-Z`\[])")


class CheckStatus(StrEnum):
    """Result of a check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the doctor.

    :param checked: name of the check, such as `login` or `topic /event/Order__e`.
    :param seen: what the check found, as a sentence.
    :param remedy: what to do; empty if there is nothing to do.
    :param where: host and process that looked.
    """

    status: CheckStatus
    checked: str
    seen: str
    remedy: str = ""
    where: str = ""

    def to_row(self) -> dict[str, str]:
        """Return the line in the types of JSON."""
        return {**asdict(self), "status": self.status.value}


def ok(checked: str, seen: str) -> Finding:
    return Finding(status=CheckStatus.OK, checked=checked, seen=seen)


def warning(checked: str, seen: str, remedy: str) -> Finding:
    return Finding(status=CheckStatus.WARNING, checked=checked, seen=seen, remedy=remedy)


def failed(checked: str, seen: str, remedy: str) -> Finding:
    return Finding(status=CheckStatus.FAILED, checked=checked, seen=seen, remedy=remedy)


def not_checked(checked: str, seen: str, remedy: str = "") -> Finding:
    """Return the line of a check that was left out.

    :param seen: the reason, as a sentence.
    :param remedy: how to have it checked.
    """
    return Finding(status=CheckStatus.NOT_CHECKED, checked=checked, seen=seen, remedy=remedy)


def failed_by(checked: str, error: SfEventsError, otherwise: str = "") -> Finding:
    """Return the line of a check that ended with an error, whose message has the remedy.

    :param otherwise: remedy for an error whose message is one sentence.
    """
    seen, remedy = split_message(str(error))
    ending = "" if seen.endswith((".", "?", "!")) else "."
    return failed(checked, f"{seen}{ending}", remedy or otherwise)


def split_message(message: str) -> tuple[str, str]:
    """Split an error's message into its first sentence, and the others."""
    seen, *others = _SENTENCE.split(" ".join(message.split()), maxsplit=1)
    return seen, " ".join(others)


def failures(findings: Iterable[Finding]) -> list[Finding]:
    """Return the failed checks, in order: the first one is the cause of others."""
    return [one for one in findings if one.status is CheckStatus.FAILED]


def failure_sentence(findings: Sequence[Finding]) -> str:
    """Name the failed checks in a sentence; empty if there is none."""
    found = failures(findings)
    if not found:
        return ""
    names = ", ".join(one.checked for one in found)
    first = f"{found[0].seen} {found[0].remedy}".strip()
    return f"{counted(len(found), 'check')} failed: {names}. First: {first}"


def message(findings: Sequence[Finding], elsewhere: Sequence[str]) -> str:
    """Describe findings in sentences, for Airflow's Test button.

    Failures with their remedies come first; without any, what was seen. Then warnings, and the
    names of what was not checked.

    :param elsewhere: names of checks that only the command and the operator make.
    """
    bad = failures(findings)
    shown = bad or [one for one in findings if one.status is CheckStatus.OK]
    shown = [*shown, *(one for one in findings if one.status is CheckStatus.WARNING)]
    told = [f"{one.seen} {one.remedy}".strip() for one in shown]
    if left := [one.checked for one in findings if one.status is CheckStatus.NOT_CHECKED]:
        told.append(f"Not checked: {', '.join(left)}.")
    told.append(
        f"Checked by {this_process()}. Not checked here, but by `airflow sfevents doctor` and "
        f"SfEventsDoctorOperator: {', '.join(elsewhere)}."
    )
    return " ".join(told)


def at(where: str, findings: Iterable[Finding]) -> list[Finding]:
    """Return findings with the place of those that name none."""
    return [one if one.where else replace(one, where=where) for one in findings]


def this_process(what: str = "process") -> str:
    """Return host and process id of this process, with its role."""
    return f"{socket.gethostname()}, {what} {os.getpid()}"
