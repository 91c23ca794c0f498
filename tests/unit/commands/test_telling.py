from __future__ import annotations

import os
from argparse import Namespace

import pytest

from airflow_provider_sfevents.commands.telling import command, invocation
from airflow_provider_sfevents.exceptions import ConfigurationError

ARGS = {"consumer": "load", "topic": "/event/Order__e"}


def test_a_command_is_named_with_the_options_given() -> None:
    """It can be copied as it stands; defaults are left out, and what a shell would split is quoted."""
    plain = Namespace(**ARGS, position_store="variable", staging=None, conn_id=None)
    assert invocation(plain, "position", "set", "latest") == (
        "airflow sfevents position set load /event/Order__e latest"
    )
    given = Namespace(**ARGS, position_store="asset", staging="s3://b/my area", conn_id="acme")
    assert invocation(given, "batches", "list") == (
        "airflow sfevents batches list load /event/Order__e --position-store asset --staging 's3://b/my area' --conn-id acme"
    )


def test_our_errors_end_a_command_with_their_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Airflow's own commands end; what is no error of ours stays what it is."""
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "set by somebody")

    def act(args: Namespace) -> None:
        raise args.error

    with pytest.raises(SystemExit, match="this is wrong"):
        command(act)(Namespace(error=ConfigurationError("this is wrong")))
    with pytest.raises(ZeroDivisionError):
        command(act)(Namespace(error=ZeroDivisionError()))
    assert os.environ["_AIRFLOW_PROCESS_CONTEXT"] == "set by somebody"
