from __future__ import annotations

import getpass
from pathlib import Path

import pytest
from typing_extensions import override
from upath import UPath

from airflow_provider_sfevents.exceptions import ConfigurationError, StagingError
from airflow_provider_sfevents.staging import durable
from airflow_provider_sfevents.staging.places import ensure_spark_can_read, spark_url, usable


def test_a_good_place_is_usable_and_left_as_it_was(place: UPath) -> None:
    """All that a staging area needs is tried, and nothing stays of it."""
    durable.replace(place / "there", b"")
    assert usable(place)
    assert durable.names(place) == ["there"]


def test_a_bad_place_is_refused_with_its_remedy(tmp_path: Path) -> None:
    """Before anything is spent the user learns what is wrong with the place and what to do."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StagingError, match="name another place by `staging`"):
        usable(UPath(tmp_path) / "file")


def test_a_folder_that_cannot_be_made_is_the_users_to_change() -> None:
    """The refusal names the folder, the user and the remedy, and is not tried again."""
    with pytest.raises(ConfigurationError) as raised:
        usable(UPath("/proc/nowhere/staging"))
    said = str(raised.value)
    assert "The staging folder /proc/nowhere/staging cannot be made: No such file" in said
    assert f"user '{getpass.getuser()}', who can make no folder in /proc" in said
    assert "by `staging`" in said
    assert "removed" not in said


def test_a_store_that_forgets_is_refused() -> None:
    """A place where what was written is not found again is no staging area."""

    class Forgetting:
        protocol = "memory"
        path = "a"
        fs = None

        def __truediv__(self, name: str) -> Forgetting:
            return self

        @override
        def __str__(self) -> str:
            return "memory://forgetting"

    class Fs:
        def pipe_file(self, path: str, value: bytes, mode: str = "") -> None: ...
        def cat_file(self, path: str) -> bytes:
            raise FileNotFoundError

        def invalidate_cache(self, path: str) -> None: ...
        def rm(self, path: str, recursive: bool) -> None: ...

    place = Forgetting()
    place.fs = Fs()  # type: ignore[assignment]
    with pytest.raises(
        StagingError,
        match="memory://forgetting cannot be a staging area: what was written does not read back",
    ):
        usable(place)


@pytest.mark.parametrize(
    ("place", "url"),
    [
        ("/data/staging", "file:///data/staging"),
        ("/data/a b%2F", "file:///data/a b%2F"),
        ("file:///data/staging", "file:///data/staging"),
        ("local:///data/staging", "file:///data/staging"),
        ("s3://bucket/a/b", "s3a://bucket/a/b"),
        ("s3://aws_conn@bucket/a@b", "s3a://bucket/a@b"),
        ("s3a://bucket/a", "s3a://bucket/a"),
        ("s3://bucket", "s3a://bucket"),
        ("gs://conn@bucket/a", "gs://bucket/a"),
        ("gcs://bucket/a", "gs://bucket/a"),
        (
            "abfs://container@account.dfs.core.windows.net/a",
            "abfs://container@account.dfs.core.windows.net/a",
        ),
        ("hdfs://name:8020/a", "hdfs://name:8020/a"),
    ],
)
def test_spark_is_given_its_own_spelling(place: str, url: str) -> None:
    """Scheme and path as Hadoop reads them, and no Airflow connection in the address."""
    assert spark_url(place) == url
    assert spark_url(url) == url


def test_a_relative_folder_is_made_absolute() -> None:
    """Spark has another working directory."""
    assert spark_url("staging") == f"file://{Path.cwd()}/staging"


def test_a_path_is_as_good_as_its_url(tmp_path: Path) -> None:
    """`UPath` and text give the same."""
    assert spark_url(UPath(tmp_path)) == spark_url(str(tmp_path)) == f"file://{tmp_path}"


def test_memory_is_refused() -> None:
    """No Spark reads this process's memory."""
    with pytest.raises(ConfigurationError, match="memory of one Python process"):
        spark_url("memory://a")


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]"])
def test_a_local_spark_reads_a_local_folder(master: str) -> None:
    """Spark on this machine sees this machine's folders."""
    ensure_spark_can_read("/data", master)


@pytest.mark.parametrize("master", ["yarn", "spark://master:7077", "k8s://https://host:443"])
def test_a_remote_spark_needs_a_shared_place(master: str) -> None:
    """A folder of this machine is refused for a cluster unless it is declared shared; an object store is not."""
    with pytest.raises(ConfigurationError, match=r"file:///data .*staging_shared=True"):
        ensure_spark_can_read("/data", master)
    ensure_spark_can_read("/data", master, shared=True)
    ensure_spark_can_read("s3://bucket/a", master)
