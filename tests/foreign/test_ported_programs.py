"""Programs of other clients, and their ported forms in the documentation."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from contextlib import contextmanager
from email import message_from_string
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.emulator import Emulator
from tests.harness.foreign_packages import CLIENTS, ClientsMissingError, python
from tests.harness.interpreters import interpreter
from tests.harness.pages import DOCS, Page
from tests.integration.emulator.bayeux import opened
from tests.integration.emulator.resting import Rest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.full

PAGE = Page("how-to/client-without-airflow.md")


@pytest.fixture
def bus() -> Iterator[Emulator]:
    """An org with PushTopics, reached by name: aiohttp keeps no cookies of an IP address."""
    with Emulator(host="localhost") as bus:
        for name, entity in (("one", "Account"), ("two", "Contact")):
            fields = {"Name": name, "Query": f"SELECT Id, Name FROM {entity}", "ApiVersion": 64.0}  # noqa: S608
            assert Rest(bus).ask("POST", "/sobjects/PushTopic", fields).status == 201
        yield bus
        bus.check()


@contextmanager
def running(*command: str | Path) -> Iterator[subprocess.Popen[str]]:
    """Run a Python program for the length of a block."""
    environment = {"PYTHONUNBUFFERED": "1", "PYTHONPATH": str(DOCS.parent)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def lines(process: subprocess.Popen[str], count: int) -> list[str]:
    """Wait for lines of a program's output; they are empty once it has ended."""
    assert process.stdout is not None
    return [process.stdout.readline() for _ in range(count)]


def written(folder: Path, name: str, program: str, values: dict[str, str]) -> Path:
    """File of a program, with values in place of its placeholders such as `"<username>"`."""
    for placeholder, value in values.items():
        assert f'"<{placeholder}>"' in program
        program = program.replace(f'"<{placeholder}>"', value)
    path = folder / f"{name}.py"
    path.write_text(program)
    return path


def loop_of(program: str) -> str:
    """Text of the loop over messages, as it stands in the file but for its indentation."""
    [found] = re.findall(r"^( +async for .*\n(?: +.*\n)+?)(?=\n|\S)", program, re.MULTILINE)
    return dedent(found)


def function_of(program: str) -> str:
    """The function `stream_events` without comments and layout."""
    [found] = [one for one in ast.parse(program).body if isinstance(one, ast.AsyncFunctionDef)]
    return ast.dump(found)


@pytest.fixture
def old_python() -> Path:
    """Python with `aiosfstream`."""
    try:
        return python("requirements-aiosfstream.txt", interpreter("3.8"))
    except ClientsMissingError as missing:
        pytest.fail(str(missing))


def quick_start(old_python: Path) -> str:
    """The program in the description of `aiosfstream`."""
    [metadata] = old_python.parents[1].glob("lib/*/site-packages/aiosfstream-*/METADATA")
    description = message_from_string(metadata.read_text()).get_payload()
    [code] = re.findall(r"\.\. code-block:: python\n((?:\n| +.*\n)+)", str(description))
    return dedent(code)


def test_the_quick_start_of_aiosfstream(bus: Emulator, old_python: Path, tmp_path: Path) -> None:
    """It runs unchanged on `aiosfstream`; ported, only imports change, and it prints the same."""
    documented = quick_start(old_python)
    [ported, *_] = PAGE.samples("python", "## Change a program from aiosfstream")
    assert loop_of(ported) == loop_of(documented)
    assert function_of(ported) == function_of(documented)
    org = bus.org
    values = {
        "consumer key": repr(org.consumer_key),
        "consumer secret": repr(org.consumer_secret),
        "username": repr(org.username),
        "password": repr(f"{org.password}{org.security_token}"),
    }
    theirs = written(tmp_path, "theirs", documented, values)
    values["password"] += f", login_url={bus.login_url!r}"
    ours = written(tmp_path, "ours", ported, values)
    launcher = CLIENTS / "with_login_url.py"
    with (
        running(old_python, launcher, bus.login_url, theirs) as original,
        running(sys.executable, ours) as changed,
    ):
        bus.wait_open_streams(4)
        bus.create("Account", {"Name": "Acme"})
        bus.create("Contact", {"LastName": "Lovelace"})
        printed = lines(original, 2)
        assert [one.partition(":")[0] for one in printed] == ["/topic/one", "/topic/two"]
        assert "'Name': 'Acme'" in printed[0]
        assert lines(changed, 2) == printed


def test_a_ported_program_of_emp_connector(bus: Emulator, tmp_path: Path) -> None:
    """The documented program takes EMP-Connector's parameters: a bearer token, a topic, an id."""
    first, second = (bus.create("Account", {"Name": name}) for name in ("Acme", "Bolt"))
    with opened(bus) as session:
        session.subscribe("/topic/one", -2)
        place = session.take(2)[0]["data"]["event"]["replayId"]
    extra = bus.connection("session")["extra"]
    [program, *_] = PAGE.samples("python", "## Change a program from EMP-Connector")
    values = {
        "topic": "'/topic/one'",
        "token": repr(extra["session_token"]),
        "instance URL": repr(extra["instance_url"]),
        "replay id": repr(place),
    }
    with running(sys.executable, written(tmp_path, "ported", program, values)) as process:
        third = bus.create("Account", {"Name": "Corp"})
        printed = [ast.literal_eval(line)["sobject"] for line in lines(process, 2)]
    assert printed == [{"Id": second, "Name": "Bolt"}, {"Id": third, "Name": "Corp"}]
    assert first not in {one["Id"] for one in printed}
