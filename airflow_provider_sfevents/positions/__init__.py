"""Positions: the record of how far a consumer has come on a topic, and the stores that keep it."""

from __future__ import annotations
