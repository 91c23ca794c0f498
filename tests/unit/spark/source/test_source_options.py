from __future__ import annotations

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.source.source_options import SourceOptions, read_options

FOLDER = "/staging/00D/orders/event.Order__e"


def test_the_topics_folder_is_enough() -> None:
    """With the topic's folder alone, everything else has a default."""
    options = read_options({"path": f"{FOLDER}/"})
    assert options == SourceOptions(folder=FOLDER, max_batches=100, later_fields="fail")
    assert options.area == "/staging/_area.json"


def test_the_folder_is_named_below_a_root() -> None:
    """Org, consumer and topic name the folder below the staging area's root."""
    names = {"org_id": "00D", "consumer": "a/b", "topic": "/event/Order__e"}
    options = read_options({"PATH": "s3://b/staging", **names, "MaxBatchesPerTrigger": "7"})
    assert options.folder == "s3://b/staging/00D/a%2Fb/event.Order__e"
    assert options.max_batches == 7
    assert options.area == "s3://b/staging/_area.json"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, r"needs `path`: the topic's folder"),
        ({"path": "/s", "topic": "t"}, r"missing: org_id, consumer"),
        ({"path": FOLDER, "eventtype": "A"}, r"has no option 'eventtype'. It has path, org_id"),
        ({"path": FOLDER, "later_fields": "keep"}, r"later_fields='keep': give 'fail' or 'rescue'"),
        ({"path": FOLDER, "maxBatchesPerTrigger": "0"}, r"maxBatchesPerTrigger='0': give the most"),
        ({"path": FOLDER, "maxBatchesPerTrigger": "1e3"}, r"maxBatchesPerTrigger='1e3'"),
        ({"path": FOLDER, "fs.s3a.secret.key": "hush"}, r"'fs.s3a.secret.key' looks like a cred"),
        ({"path": FOLDER, "session_token": "hush"}, r"'session_token' looks like a credential"),
        ({"path": "s3://user:hush@bucket/a/b/c"}, r"has a user, a password or parameters in it"),
        ({"path": "s3://bucket/a/b/c?secret_key=hush"}, r"`path` \(a URL of s3\) has a user, a"),
        ({"path": "abfs://c:hush@acc.dfs.core.windows.net/a"}, r"has a user, a password"),
    ],
)
def test_a_mistake_is_refused_without_its_secret(given: dict[str, str], message: str) -> None:
    """A missing, unknown or invalid option is one error, and a credential's value is not in it."""
    with pytest.raises(ConfigurationError, match=message) as raised:
        read_options(given)
    assert "hush" not in str(raised.value)


def test_a_container_of_azure_is_no_user() -> None:
    """The container before the `@` of a URL of Azure is no user."""
    path = "abfss://container@account.dfs.core.windows.net/staging/o/c/t"
    assert read_options({"path": path}).folder == path
