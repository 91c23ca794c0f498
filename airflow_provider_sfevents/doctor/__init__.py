"""Checks of a set-up: the org, the machine and the positions; a line for each check.

`*_findings` turn what was seen into lines, without I/O; `org_checks` and `http_proxy` look. No
check publishes, requests an event, or moves a position.
"""

from __future__ import annotations
