from __future__ import annotations

import getpass
from pathlib import Path

import pytest
from typing_extensions import override
from upath import UPath

from airflow_provider_sfevents.exceptions import ConfigurationError, StagingError
from airflow_provider_sfevents.staging.storage import durable_files
from airflow_provider_sfevents.staging.storage.staging_location import (
    ensure_spark_can_read,
    spark_url,
    usable,
)


def test_a_good_place_is_usable_and_left_as_it_was(place: UPath) -> None:
    """A usable staging area is tried completely, and the check leaves no file behind."""
    durable_files.replace(place / "there", b"")
    assert usable(place)
    assert durable_files.names(place) == ["there"]


def test_a_bad_place_is_refused_with_its_remedy(tmp_path: Path) -> None:
    """An unusable location is refused with its error and remedy before any delivery."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StagingError, match="set `staging` to another location") as raised:
        usable(UPath(tmp_path) / "file")
    assert str(raised.value).startswith(f"A file in {tmp_path}/file cannot be created: ")


def test_a_folder_that_cannot_be_made_is_the_users_to_change() -> None:
    """A folder that cannot be made is a configuration error with folder, user and remedy."""
    with pytest.raises(ConfigurationError) as raised:
        usable(UPath("/proc/nowhere/staging"))
    said = str(raised.value)
    assert "The staging folder /proc/nowhere/staging cannot be made: No such file" in said
    assert f"user '{getpass.getuser()}', which can make no folder in /proc" in said
    assert "Set `staging`" in said
    assert "removed" not in said


def test_a_store_that_forgets_is_refused() -> None:
    """A store that does not return written data is refused as a staging area."""

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
    """Spark's URL has Hadoop's scheme and path and no Airflow connection."""
    assert spark_url(place) == url
    assert spark_url(url) == url


def test_a_relative_folder_is_made_absolute() -> None:
    """A relative folder becomes absolute, because Spark has another working directory."""
    assert spark_url("staging") == f"file://{Path.cwd()}/staging"


def test_a_path_is_as_good_as_its_url(tmp_path: Path) -> None:
    """A `UPath` and its text give the same URL for Spark."""
    assert spark_url(UPath(tmp_path)) == spark_url(str(tmp_path)) == f"file://{tmp_path}"


def test_memory_is_refused() -> None:
    """A `memory://` location is refused, because Spark cannot read this process's memory."""
    with pytest.raises(ConfigurationError, match="memory of one Python process"):
        spark_url("memory://a")


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]"])
def test_a_local_spark_reads_a_local_folder(master: str) -> None:
    """A local folder is accepted for a local Spark."""
    ensure_spark_can_read("/data", master)


@pytest.mark.parametrize("master", ["yarn", "spark://master:7077", "k8s://https://host:443"])
def test_a_remote_spark_needs_a_shared_place(master: str) -> None:
    """A local folder is refused for a cluster unless declared shared; a bucket is accepted."""
    with pytest.raises(ConfigurationError, match=r"file:///data .*staging_shared=True"):
        ensure_spark_can_read("/data", master)
    ensure_spark_can_read("/data", master, shared=True)
    ensure_spark_can_read("s3://bucket/a", master)
