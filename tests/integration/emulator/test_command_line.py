"""The command line starts an emulator and talks to it, across processes and within one."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import httpx
import pytest

from airflow_provider_sfevents.emulator import Emulator

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Says = Callable[..., tuple[int, str, str]]


def test_start_says_where_it_is_and_stops_cleanly(tmp_path: Path, says: Says) -> None:
    """A start prints the addresses, and SIGTERM ends it with 0."""
    command = [
        sys.executable,
        "-m",
        "airflow_provider_sfevents.emulator",
        "start",
        "--sample",
        "--folder",
        str(tmp_path),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    state = tmp_path / "emulator.json"
    try:
        deadline = time.monotonic() + 20
        while not state.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)  # another process gives no other sign
        assert says("publish", "--sample", "30", "--seed", "1", "--folder", str(tmp_path))[0] == 0
        _, listed, _ = says("look", "--folder", str(tmp_path))
        endpoint = json.loads(state.read_text())["endpoint"]
    finally:
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "/data/ChangeEvents" in listed
    lines = dict(
        line.split(maxsplit=1)
        for line in output.splitlines()
        if line.startswith(("Org", "Connection"))
    )
    assert f"Pub/Sub API  {endpoint}" in output
    connection = json.loads(lines["Connection"])
    there = f"{connection['extra']['pubsub_endpoint']}:{connection['port']}"
    assert (connection["conn_type"], there) == ("sfevents", endpoint)
    assert not state.exists()


def test_the_state_file_has_the_token(tmp_path: Path, says: Says) -> None:
    """Commands find the emulator and its token in the state file; a URL needs the token."""
    with Emulator() as bus:
        bus.token = "another"
    with bus:
        state = tmp_path / "emulator.json"
        bus.address.write(state)
        assert says("look", "--state", str(state))[0] == 0
        code, _, err = says("look", "--url", bus.my_domain_url)
        assert (code, "the admin API requires its token" in err) == (2, True)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Origin": "https://evil.example", "Content-Type": "text/plain"}, 403),
        ({"Authorization": "Bearer guessed"}, 401),
        ({"Authorization": ""}, 401),
    ],
    ids=["rebound name", "a web page", "wrong token", "no token"],
)
def test_a_web_page_gets_nothing(headers: dict[str, str], status: int) -> None:
    """A web page's request gets neither secrets nor changes; a proper one gets both."""
    with Emulator() as bus:
        for url in (bus.my_domain_url, bus.add_org().instance_url):
            good = {"Authorization": f"Bearer {bus.token}"}
            with httpx.Client(base_url=url, headers={**good, **headers}, timeout=10) as page:
                asked = page.get("/emulator/connection")
                body = '{"kind": "event", "name": "Evil__e", "fields": {}}'
                defined = page.post("/emulator/definitions", content=body)
            assert [asked.status_code, defined.status_code] == [status, status]
            assert bus.org.consumer_secret not in asked.text
            assert httpx.get(f"{url}/emulator/connection", headers=good).status_code == 200
        assert bus.org.bus.topic("/event/Evil__e") is None
        bus.check()


def test_port_in_use_is_one_line(says: Says, tmp_path: Path) -> None:
    """A port in use ends the command with 2 and one line."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        code, out, err = says("start", "--grpc-port", port, "--state", str(tmp_path / "state.json"))
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        f"error: port {port} on 127.0.0.1 is in use; choose another gRPC port, or 0 for a free one"
    ]


def test_publish_look_change_define(
    says: Says, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events, changes and definitions reach the bus, and `look` shows them."""
    with Emulator() as bus:
        at = ("--url", bus.my_domain_url)
        assert (
            says("define", "event", "Order__e", "Number__c=Text", "Amount__c=Double", *at)[1]
            == "/event/Order__e defined\n"
        )
        assert (
            says("define", "entity", "Account", "Phone=Phone", "BillingAddress=Address", *at)[0]
            == 0
        )
        assert says("define", "channel", "/event/All__chn", "Order__e", *at)[0] == 0
        assert (
            says("publish", "/event/Order__e", '{"Number__c": "1", "Amount__c": 1.5}', *at)[0] == 0
        )
        assert (
            "2 published" in says("publish", "/event/Order__e", '[{"Number__c": "2"}, {}]', *at)[1]
        )
        lines = tmp_path / "lines.jsonl"
        lines.write_text('{"Number__c": "4"}\n\n{"Number__c": "5"}\n')
        assert says("publish", "/event/Order__e", "--file", str(lines), *at)[0] == 0
        with lines.open() as source:
            monkeypatch.setattr(sys, "stdin", source)
            assert "2 published" in says("publish", "/event/Order__e", "--file", "-", *at)[1]
        record = "001000000000001AAA"
        settings = (
            "--set",
            "Phone=0123",
            "--set",
            "BillingAddress.City=Porto",
            "--set",
            "BillingAddress.Street=null",
        )
        assert says("change", "Account", "update", "--record", record, *settings, *at)[0] == 0
        assert [event["fields"]["Number__c"] for event in bus.events("/event/All__chn")] == [
            "1",
            "2",
            None,
            "4",
            "5",
            "4",
            "5",
        ]
        shown = [
            json.loads(line)
            for line in says("look", "/data/AccountChangeEvent", *at)[1].splitlines()
        ]
        assert shown == bus.events("Account")
        assert shown[0]["fields"]["Phone"] == "0123"
        header = shown[0]["fields"]["ChangeEventHeader"]
        assert header["changedFields"] == ["Phone", "BillingAddress.Street", "BillingAddress.City"]
        assert header["nulledFields"] == ["BillingAddress.Street"]
        assert len(says("look", "/event/Order__e", "--last", "2", *at)[1].splitlines()) == 2
        assert json.loads(says("connection", *at)[1]) == bus.connection()
        bus.check()


def test_look_lists_topics_and_subscribers(says: Says) -> None:
    """Without a topic, `look` lists topics and subscribers."""
    with Emulator(sample=True) as bus:
        says("publish", "--sample", "5", "--url", bus.my_domain_url)
        code, out, _ = says("look", "--url", bus.my_domain_url)
        assert code == 0
        assert out.startswith(f"org {bus.org.org_id}\ntopic")
        assert any(line.startswith("/event/Sales__chn") for line in out.splitlines())


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("publish", "/event/Nope__e", "{}"), "'/event/Nope__e' is not defined"),
        (("publish", "/event/Order__e", '{"Nope": 1}'), "no field 'Nope'"),
        (("publish", "/event/Order__e", "rubbish"), "the event is not JSON"),
        (("publish", "/event/Order__e"), "needs one of an event as JSON, --file"),
        (("publish",), "needs a topic"),
        (("publish", "/event/Order__e", "--file", "/nowhere.jsonl"), "/nowhere.jsonl"),
        (("change", "Order__e", "UPDATE", "--record", "001"), "carries no change events"),
        (
            ("change", "Account", "UPDATE", "--record", "001", "--set", "Phone"),
            "'Phone' is not FIELD=VALUE",
        ),
        (("define", "event", "X__e", "A__c"), "'A__c' is not FIELD=TYPE"),
        (("define", "event", "X__e", "A__c=Strng"), "'Strng' is not a type"),
        (("define", "event", "My Order__e", "A__c=Text"), "event 'My Order__e' is not an API name"),
        (("define", "event", "X__e", "My Field__c=Text"), "field 'My Field__c' is not an API name"),
        (("define", "entity", "My Lead", "A__c=Text"), "entity 'My Lead' is not an API name"),
        (("define", "object", "My Car__c", "A__c=Text"), "object 'My Car__c' is not an API name"),
        (("look", "/event/Nope__e"), "'/event/Nope__e' is not defined"),
        (("look", "--ca-file", "/nowhere.pem"), "--ca-file /nowhere.pem is not a certificate"),
        (("look", "--ca-file", __file__), "is not a certificate that can be read: "),
        (("publish", "/event/Order__e", "--file", sys.executable), "is not UTF-8: "),
    ],
)
def test_mistakes_are_one_line(says: Says, arguments: tuple[str, ...], why: str) -> None:
    """Each mistake is one line and the exit code 2."""
    with Emulator(sample=True) as bus:
        code, out, err = says(*arguments, "--url", bus.my_domain_url)
        assert (code, out) == (2, "")
        assert len(err.splitlines()) == 1
        assert why in err


def test_a_bad_line_is_named(says: Says, tmp_path: Path) -> None:
    """A line that is not JSON is named by its number."""
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{}\n{"a":\n')
    with Emulator(sample=True) as bus:
        _, _, err = says(
            "publish", "/event/Order__e", "--file", str(lines), "--url", bus.my_domain_url
        )
    assert f"line 2 of {lines} is not JSON" in err


def test_no_emulator_there(says: Says, tmp_path: Path) -> None:
    """A missing or foreign state file and a dead address are reported with the remedy."""
    foreign = tmp_path / "foreign.json"
    foreign.write_text("{}")
    assert "start one, or say where it is" in says("look", "--folder", str(tmp_path))[2]
    assert "is not an emulator's state file" in says("look", "--state", str(foreign))[2]
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        assert f"no emulator answers at {url}" in says("look", "--url", url)[2]
    with socket.create_server(("127.0.0.1", 0)) as other, ThreadPoolExecutor() as threads:
        threads.submit(_greet, other)
        url = f"http://127.0.0.1:{other.getsockname()[1]}"
        assert f"no emulator answers at {url} (SSH-2.0" in says("look", "--url", url)[2]
    assert "(nonnumeric port: 'abc')" in says("look", "--url", "http://x:abc")[2]
    assert "must begin with http" in says("look", "--url", "ftp://x")[2]
    assert list(tmp_path.iterdir()) == [foreign]


def _greet(server: socket.socket) -> None:
    """Answer one client in a protocol other than HTTP."""
    client, _ = server.accept()
    with client:
        client.recv(1000)
        client.sendall(b"SSH-2.0-OpenSSH\r\n")
