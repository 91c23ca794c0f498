"""Landing in sessions of a Spark Connect server, by a test of classic sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError, StagingError
from airflow_provider_sfevents.spark.files import Files
from airflow_provider_sfevents.spark.tables.sessions import few_rows
from airflow_provider_sfevents.submit.connect_session import ConnectSession
from tests.spark.connected import server_url, session_of, spark
from tests.spark.test_landing import test_each_event_type_lands_in_its_own_table

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["server_url", "spark", "test_each_event_type_lands_in_its_own_table"]

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


def test_a_server_that_does_not_see_what_the_worker_wrote_is_refused(
    server_url: str, tmp_path: Path
) -> None:
    """The error names the folder and the remedy."""
    with session_of(server_url) as session:
        files = Files(session)
        files.check_seen(str(tmp_path))
        files.check_seen("s3a://lake/none")
        # Brackets are a pattern to the server, which has no such folder then.
        (tmp_path / "[unseen]").mkdir()
        with pytest.raises(ConfigurationError, match=r"This process .*unseen.*another disk there"):
            files.check_seen(f"{tmp_path}/[unseen]")
        with pytest.raises(StagingError, match=r"none was removed.*Run the task again"):
            files.check_seen(f"{tmp_path}/none")


def test_settings_for_few_rows_are_set_back_by_the_block_that_set_them(server_url: str) -> None:
    """A block within, which ends after the first one, leaves what was there before."""
    name = "spark.sql.codegen.wholeStage"
    with session_of(server_url) as session:
        before = session.conf.get(name)
        outer, inner = few_rows(session), few_rows(session)
        outer.__enter__()
        inner.__enter__()
        assert session.conf.get(name) == "false"
        outer.__exit__(None, None, None)
        inner.__exit__(None, None, None)
        assert session.conf.get(name) == before == "true"


def test_the_error_of_a_block_is_told_where_its_server_is_gone(server_url: str) -> None:
    """The session's settings cannot be set back then, which says nothing about the cause."""
    with session_of(server_url) as session:

        def lose() -> None:
            with few_rows(session):
                ConnectSession(session, server_url).forget()
                raise ValueError("the cause")

        with pytest.raises(ValueError, match="the cause"):
            lose()
