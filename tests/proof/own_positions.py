"""A user's own position store: one file per key, each replaced atomically."""

from __future__ import annotations

import os
from pathlib import Path


class Files:
    def __init__(self) -> None:
        self._folder = Path(os.environ["PROOF_OWN_STORE"])

    def get(self, key: str) -> str | None:
        try:
            return (self._folder / key).read_text()
        except FileNotFoundError:
            return None

    def set(self, key: str, value: str) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        new = self._folder / f".{key}.new"
        new.write_text(value)
        new.replace(self._folder / key)
