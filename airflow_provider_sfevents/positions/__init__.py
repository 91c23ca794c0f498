"""How far each consumer has come, and the places where that is kept."""

from __future__ import annotations
