"""A position store that a trigger can name: a mapping, by its dotted path."""

from __future__ import annotations

POSITIONS: dict[str, str] = {}
PATH = f"{__name__}.POSITIONS"
