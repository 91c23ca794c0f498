"""An object store without exclusive create and rename that fails on demand: `bucket://name/key`.

As in a real store an object appears whole or not at all, folders exist in listings only, and a
written object is visible at once, unless the test says otherwise. Nothing is patched: `UPath` and
`fsspec` know the scheme.
"""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any

import fsspec
from fsspec import AbstractFileSystem
from typing_extensions import override
from upath import UPath
from upath.implementations.cloud import CloudPath
from upath.registry import register_implementation

if TYPE_CHECKING:
    from collections.abc import Callable

Effect = tuple[str, str]
"""Kind of a coming change (`put`, `rm`) and its path."""


class Bucket(AbstractFileSystem):  # type: ignore[misc]
    """One bucket; `fsspec` returns the same instance for the same name.

    :ivar objects: content by key.
    :ivar before: called before each effect; an exception that it raises reaches the client.
    :ivar torn: a failed effect leaves the first half of the content, as other stores would.
    :ivar reads: number of reads.
    :ivar late: number of reads that do not see an object after it was written.
    """

    protocol = "bucket"

    def __init__(self, name: str = "", **options: Any) -> None:
        super().__init__(**options)
        self.name = name
        self.objects: dict[str, bytes] = {}
        self.before: Callable[[Effect], None] = lambda _: None
        self.torn = False
        self.reads = 0
        self.late = 0
        self._unseen: dict[str, int] = {}

    @override
    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        key = self._strip_protocol(path)
        try:
            self.before(("put", key))
        except Exception:
            if self.torn:
                self.objects[key] = value[: len(value) // 2]
            raise
        self.objects[key] = bytes(value)
        self._unseen[key] = self.late

    @override
    def cat_file(self, path: str, start: Any = None, end: Any = None, **_: Any) -> bytes:
        return self._object(path)[start:end]

    @override
    def _open(self, path: str, mode: str = "rb", **_: Any) -> io.BytesIO:
        if mode != "rb":
            raise NotImplementedError(mode)
        return io.BytesIO(self._object(path))

    @override
    def ls(self, path: str, detail: bool = True, **_: Any) -> Any:
        folder = self._strip_protocol(path).rstrip("/")
        below = [key[len(folder) + 1 :] for key in self.objects if key.startswith(f"{folder}/")]
        if not below:
            raise FileNotFoundError(path)
        found = sorted({f"{folder}/{rest.split('/')[0]}" for rest in below})
        return [self.info(one) for one in found] if detail else found

    @override
    def info(self, path: str, **_: Any) -> dict[str, Any]:
        key = self._strip_protocol(path)
        if key in self.objects:
            return {"name": key, "size": len(self.objects[key]), "type": "file"}
        if any(one.startswith(f"{key}/") for one in self.objects):
            return {"name": key, "size": 0, "type": "directory"}
        raise FileNotFoundError(path)

    @override
    def rm_file(self, path: str) -> None:
        key = self._strip_protocol(path)
        self.before(("rm", key))
        self.objects.pop(key, None)

    @override
    def rm(self, path: str, recursive: bool = False, maxdepth: int | None = None) -> None:
        key = self._strip_protocol(path)
        found = [one for one in self.objects if one == key or one.startswith(f"{key}/")]
        if not found:
            raise FileNotFoundError(path)
        for one in sorted(found):
            self.rm_file(one)

    def _object(self, path: str) -> bytes:
        key = self._strip_protocol(path)
        self.reads += 1
        if key not in self.objects:
            raise FileNotFoundError(path)
        if self._unseen.get(key, 0) > 0:
            self._unseen[key] -= 1
            raise FileNotFoundError(path)
        return self.objects[key]


class BucketPath(CloudPath):  # type: ignore[misc]
    """A path in a bucket."""


fsspec.register_implementation(Bucket.protocol, Bucket)
register_implementation(Bucket.protocol, BucketPath)


def new_bucket() -> tuple[Bucket, UPath]:
    """Return a new bucket, and the root of a staging area in it."""
    name = os.urandom(6).hex()
    root = UPath(f"bucket://{name}/staging", name=name)
    return root.fs, root


class Budget:
    """Limit of effects: every later one fails, as on a full or a read-only disk."""

    def __init__(self, effects: int, code: int) -> None:
        self.left = effects
        self.refused: list[Effect] = []
        self._code = code

    def __call__(self, effect: Effect) -> None:
        if self.left <= 0:
            self.refused.append(effect)
            raise OSError(self._code, os.strerror(self._code))
        self.left -= 1
