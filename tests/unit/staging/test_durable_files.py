from __future__ import annotations

import errno
import os
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from typing_extensions import override
from upath import UPath

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.staging.storage import durable_files

if TYPE_CHECKING:
    from pathlib import Path


class FakeStore:
    """The file system of a path in an object store, with scripted answers."""

    def __init__(self, fs: Any) -> None:
        self.fs = fs
        self.path = "bucket/key"
        self.protocol = "s3"

    @override
    def __str__(self) -> str:
        return "s3://bucket/key"


class Conditional:
    """A store like s3fs: creates conditionally, and may raise or lose its answer."""

    def __init__(self, error: Exception | None = None, there: bytes | None = None) -> None:
        self.error = error
        self.there = there

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite") -> None:
        if self.error:
            raise self.error
        self.there = value

    def cat_file(self, path: str) -> bytes:
        if self.there is None:
            raise FileNotFoundError(path)
        return self.there


class Plain(Conditional):
    """A store without a conditional create."""

    @override
    def pipe_file(self, path: str, value: bytes) -> None:  # type: ignore[override]
        self.there = value


def test_the_first_creates_and_the_second_does_not(place: UPath) -> None:
    """Of two writers that create one file the first wins, and its content stays."""
    assert durable_files.create_once(place / "a", b"first")
    assert not durable_files.create_once(place / "a", b"second")
    assert durable_files.read(place / "a") == b"first"


def test_of_many_at_once_exactly_one_creates(local_place: UPath) -> None:
    """Of many threads that create one file at once exactly one wins."""
    with ThreadPoolExecutor(8) as pool:
        created = list(
            pool.map(lambda n: durable_files.create_once(local_place / "a", b"%d" % n), range(40))
        )
    assert created.count(True) == 1
    assert durable_files.read(local_place / "a") == b"%d" % created.index(True)


def test_only_the_file_itself_is_left(local_place: UPath) -> None:
    """Creating, failing to create and replacing leave no temporary file."""
    durable_files.create_once(local_place / "a", b"1")
    durable_files.create_once(local_place / "a", b"2")
    durable_files.replace(local_place / "a", b"3")
    assert [path.name for path in durable_files.local_path(local_place).iterdir()] == ["a"]


def test_replace_replaces(place: UPath) -> None:
    """The content read is the one written last."""
    durable_files.replace(place / "deep" / "a", b"1")
    durable_files.replace(place / "deep" / "a", b"2", durable=False)
    assert durable_files.read(place / "deep" / "a") == b"2"


def test_content_is_ensured(place: UPath) -> None:
    """`ensure_content` replaces other content and reports it, and writes a missing file."""
    assert not durable_files.ensure_content(place / "a", b"right")
    assert not durable_files.ensure_content(place / "a", b"right")
    for wrong in (b"wrong", b"rig", b""):
        durable_files.replace(place / "a", wrong)
        assert durable_files.ensure_content(place / "a", b"right")
        assert durable_files.read(place / "a") == b"right"


def test_what_is_not_there_reads_as_none(place: UPath) -> None:
    """A missing file reads as None, also below a missing folder and below a file."""
    durable_files.replace(place / "file", b"")
    assert durable_files.read(place / "none") is None
    assert durable_files.read(place / "no" / "folder") is None
    assert durable_files.read_tail(place / "none") is None
    assert durable_files.names(place / "none") == []


def test_names_lists_one_level(place: UPath) -> None:
    """`names` lists direct children only, also in a folder named as its parent."""
    for name in ("b", "a", "sub/c", "staging/d"):
        durable_files.replace(place / name, b"")
    assert durable_files.names(place) == ["a", "b", "staging", "sub"]


def test_remove_takes_a_folder_or_a_file_and_does_not_mind_absence(place: UPath) -> None:
    """`remove` removes files and folders, and a second call is no error."""
    durable_files.replace(place / "sub" / "deep" / "a", b"")
    durable_files.replace(place / "b", b"")
    for target in (place / "sub", place / "sub", place / "b", place / "b"):
        durable_files.remove(target)
    assert durable_files.names(place) == []


def test_the_tail_is_the_end_of_a_file(place: UPath) -> None:
    """`read_tail` returns the last bytes of a file, or all of a shorter one."""
    durable_files.replace(place / "a", bytes(100) + b"end")
    assert durable_files.read_tail(place / "a", 5) == b"\0\0end"
    assert durable_files.read_tail(place / "a") == bytes(100) + b"end"


def test_an_unwritable_folder_is_named_with_its_remedy(tmp_path: Path) -> None:
    """The error for an unwritable folder names path, reason and remedy."""
    (tmp_path / "file").write_text("")
    named = re.escape(
        f"{tmp_path}/file/a cannot be created: File exists. "
        "A file is where a folder must be: remove it"
    )
    with pytest.raises(StagingError, match=named):
        durable_files.create_once(UPath(tmp_path) / "file" / "a", b"")


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (errno.ENOSPC, "Free space"),
        (errno.EACCES, "Let the user"),
        (errno.EROFS, "read-only"),
        (errno.EIO, "try again"),
        (errno.ENOENT, "Check that the store exists"),
    ],
    ids=lambda value: errno.errorcode.get(value, "") if isinstance(value, int) else "",
)
def test_each_trouble_has_its_remedy(code: int, remedy: str) -> None:
    """Each kind of error of a store has its own remedy."""
    store = FakeStore(Conditional(OSError(code, os.strerror(code))))
    with pytest.raises(
        StagingError, match=rf"s3://bucket/key cannot be written: {os.strerror(code)}\. .*{remedy}"
    ):
        durable_files.replace(store, b"")


def test_a_client_without_numbers_is_understood() -> None:
    """An error without an errno has the remedy of its kind."""
    store = FakeStore(Conditional(PermissionError("Access Denied")))
    with pytest.raises(StagingError, match=r"cannot be written: Access Denied\. Let the user"):
        durable_files.replace(store, b"")


def test_a_signature_in_a_stores_answer_is_not_repeated() -> None:
    """The query of a signed URL does not appear in the error."""
    store = FakeStore(Conditional(RuntimeError("PUT https://x.net/a?sig=SECRET failed")))
    with pytest.raises(StagingError) as caught:
        durable_files.replace(store, b"")
    assert "SECRET" not in str(caught.value)
    assert "https://x.net/a?..." in str(caught.value)


def test_a_lost_answer_is_settled_by_the_content() -> None:
    """After a lost answer the content decides whether this writer created the object."""
    ours = FakeStore(Conditional(FileExistsError(), there=b"mine"))
    theirs = FakeStore(Conditional(OSError(errno.EIO, "conflict"), there=b"theirs"))
    assert durable_files.create_once(ours, b"mine")
    assert not durable_files.create_once(theirs, b"mine")


def test_a_failed_create_of_an_object_is_an_error() -> None:
    """A failed create that left no object is an error, not an answer."""
    store = FakeStore(Conditional(OSError(errno.EIO, "out of order")))
    with pytest.raises(StagingError, match="out of order"):
        durable_files.create_once(store, b"")


def test_which_stores_create_exclusively(local_place: UPath) -> None:
    """Local folders and stores with a conditional put create exclusively; others do not."""
    assert durable_files.supports_exclusive_create(local_place)
    assert durable_files.supports_exclusive_create(UPath("memory://a"))
    assert durable_files.supports_exclusive_create(FakeStore(Conditional()))
    assert not durable_files.supports_exclusive_create(FakeStore(Plain()))
    sftp = FakeStore(Conditional())
    sftp.protocol = "sftp"
    assert not durable_files.supports_exclusive_create(sftp)


def test_a_store_without_exclusive_create_looks_first() -> None:
    """A store without exclusive create keeps existing content, except in a race."""
    store = FakeStore(Plain())
    assert durable_files.create_once(store, b"1")
    assert not durable_files.create_once(store, b"2")


def test_a_listing_is_never_an_old_one() -> None:
    """A listing shows another process's new files, although the client caches listings."""

    class Cached(MemoryFileSystem):  # type: ignore[misc]
        cachable = False
        cached: list[str] | None = None

        def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
            self.cached = self.cached or super().ls(path, detail, **kwargs)
            return self.cached

        def invalidate_cache(self, path: str | None = None) -> None:
            self.cached = None

    store = FakeStore(Cached())
    store.path = "/listing-test"
    for name in ("a", "b"):
        MemoryFileSystem().pipe_file(f"/listing-test/{name}", b"")
        assert durable_files.names(store)[-1] == name


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("/data/a b", "file:///data/a b"),
        ("file:///data/x", "file:///data/x"),
        ("memory://a/b", "memory://a/b"),
    ],
)
def test_a_url_is_absolute_and_has_a_scheme(given: str, shown: str) -> None:
    """A path's URL is absolute, has a scheme and can be parsed by `UPath`."""
    assert durable_files.url(UPath(given)) == shown
    assert durable_files.url(UPath(shown)) == shown
