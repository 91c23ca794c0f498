"""A position store that a trigger can name by its dotted path: a mapping."""

from __future__ import annotations

POSITIONS: dict[str, str] = {}
PATH = f"{__name__}.POSITIONS"
