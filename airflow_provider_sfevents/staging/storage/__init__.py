"""The file system below the staging area: atomic writes, file modes, usable locations."""

from __future__ import annotations
