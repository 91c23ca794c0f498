"""A position store as a user would write it: a mapping over files in a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, MutableMapping
from pathlib import Path

from typing_extensions import override


class Files(MutableMapping[str, str]):
    def __init__(self) -> None:
        self._folder = Path(os.environ["TEST_FOLDER"]) / "own"
        self._folder.mkdir(exist_ok=True)

    @override
    def __getitem__(self, key: str) -> str:
        try:
            return (self._folder / key).read_text()
        except FileNotFoundError as error:
            raise KeyError(key) from error

    @override
    def __setitem__(self, key: str, value: str) -> None:
        (self._folder / key).write_text(value)

    @override
    def __delitem__(self, key: str) -> None:
        (self._folder / key).unlink()

    @override
    def __iter__(self) -> Iterator[str]:
        return (path.name for path in self._folder.iterdir())

    @override
    def __len__(self) -> int:
        return len(list(self._folder.iterdir()))
