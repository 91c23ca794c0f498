"""The pytest fixture provides a running emulator and costs nothing unless used."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_sfevents.emulator import Emulator


def test_fixture_runs(sfevents_emulator: Emulator) -> None:
    """The fixture is available without an import."""
    assert sfevents_emulator.define_event("Order__e", {}) == "/event/Order__e"
    assert sfevents_emulator.endpoint.startswith("127.0.0.1:")


def test_commands_of_a_test_have_the_token(sfevents_emulator: Emulator) -> None:
    """A test can run the command line against its emulator by URL alone."""
    command = [sys.executable, "-m", "airflow_provider_sfevents.emulator", "look"]
    done = subprocess.run(
        [*command, "--url", sfevents_emulator.my_domain_url],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, sfevents_emulator.org.org_id in done.stdout) == (0, True), done.stderr


def test_loading_the_plugin_is_light() -> None:
    """Loading the plugin imports neither gRPC nor a web server nor Airflow."""
    code = (
        "import sys, airflow_provider_sfevents.emulator.pytest_plugin;"
        "print([m for m in ('grpc', 'starlette', 'uvicorn', 'fastavro', 'airflow', 'jwt') if m in "
        "sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_defect_fails_the_users_test(tmp_path: Path) -> None:
    """A defect of the emulator fails the test, and the knobs can be overridden."""
    (tmp_path / "test_user.py").write_text(
        "import pytest\n"
        "from airflow_provider_sfevents.emulator import Knobs\n"
        "@pytest.fixture\n"
        "def sfevents_knobs():\n"
        "    return Knobs(keepalive_seconds=1.5)\n"
        "def test_knobs(sfevents_emulator):\n"
        "    assert sfevents_emulator.knobs.keepalive_seconds == 1.5\n"
        "def test_defect(sfevents_emulator):\n"
        "    sfevents_emulator._state.defect(RuntimeError('inside'))\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    # `make test` may have been given options for its own pytest.
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment
    )
    assert "2 passed, 1 error" in done.stdout
    assert "errors in the emulator, first RuntimeError('inside')" in done.stdout
