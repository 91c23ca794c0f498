"""The emulator in its own process, which can be killed and restarted on the same ports.

Counts of deliveries survive the kill here.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlencode
from urllib.request import urlopen

from airflow_provider_sfevents.emulator.cli.remote import EmulatorAddress, Remote, state_file
from airflow_provider_sfevents.emulator.errors import EmulatorError

if TYPE_CHECKING:
    from collections.abc import Mapping

READY_SECONDS = 60
ROOT = Path(__file__).parents[2]


@dataclass(slots=True, kw_only=True)
class EmulatedSalesforce:
    """One org on a bus that outlives its process.

    :param folder: folder of the emulator, with its events, ports and secrets.
    :param knobs: knobs as on the command line.
    """

    folder: Path
    knobs: Mapping[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[str] | None = None
    _hours: float = 0.0
    _where: EmulatorAddress | None = None
    _delivered_before: dict[str, int] = field(default_factory=dict)

    def start(self) -> Self:
        """Start the emulator, for the first time or again, and wait until it answers."""
        state = state_file(str(self.folder))
        state.unlink(missing_ok=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "tests.harness.emulator_host", str(self.folder)]
        command += [f"{name}={value}" for name, value in self.knobs.items()]
        with (self.folder / "emulator.log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        until = time.monotonic() + READY_SECONDS
        while not state.exists():
            if self._process.poll() is not None or time.monotonic() > until:
                said = (self.folder / "emulator.log").read_text()
                raise AssertionError(f"the emulator did not start:\n{said}")
            time.sleep(0.02)
        self._where = EmulatorAddress.read(state)
        if self._hours:
            self.order("clock.advance", hours=self._hours)
        return self

    def kill(self) -> None:
        """SIGKILL the emulator; its deliveries so far stay counted."""
        assert self._process is not None
        for topic, count in self._counts().items():
            self._delivered_before[topic] = self._delivered_before.get(topic, 0) + count
        self._process.kill()
        self._close(self._process)

    def order(self, verb: str, **arguments: Any) -> None:
        """Send a command to the emulator, and wait until it is done.

        :param verb: method of `Emulator` or of one of its parts: `fail_next`, `drop_connections`.
        """
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{json.dumps({'verb': verb, 'arguments': arguments})}\n")
        process.stdin.flush()
        assert process.stdout.readline() == "done\n", (self.folder / "emulator.log").read_text()

    def advance(self, hours: float) -> None:
        """Move the emulator's clock forward; the clock keeps that after a restart."""
        self._hours += hours
        self.order("clock.advance", hours=hours)

    def restart(self) -> None:
        """Kill the emulator and start it again, with the same ports and events."""
        self.kill()
        self.start()

    def freeze(self) -> None:
        """Suspend the emulator; its connections stay open without an answer."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def stop(self) -> None:
        """End the emulator by SIGTERM."""
        if self._process is not None and self._process.poll() is None:
            self.thaw()
            self._close(self._process)

    def _close(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.wait(timeout=30)
        process.stdout.close()

    @property
    def org_id(self) -> str:
        return self.where.org_id

    @property
    def where(self) -> EmulatorAddress:
        assert self._where is not None, "start() comes first"
        return self._where

    @property
    def remote(self) -> Remote:
        return self.where.remote()

    def connection(self) -> dict[str, Any]:
        """Airflow connection to this emulator."""
        found: dict[str, Any] = self.remote.get("connection", auth="client_credentials")
        return found

    def define_event(self, name: str, **fields: str) -> str:
        """Define a platform event, and return its topic."""
        return str(self.remote.post("definitions", kind="event", name=name, fields=fields)["topic"])

    def define_managed(self, name: str, topic: str) -> None:
        """Define a managed subscription that loses no event by itself."""
        replays = {"default_replay": "EARLIEST", "error_recovery_replay": "EARLIEST"}
        self.remote.post("managed/define", name=name, topic=topic, **replays)

    def committed(self, name: str) -> str:
        """Replay id in hex that the next stream of a managed subscription starts after.

        Empty if nothing is committed.
        """
        found = self.remote.get("managed")["managed"]
        return next(str(one["committed"]) for one in found if one["developer_name"] == name)

    def publish(self, topic: str, events: list[dict[str, Any]], ids: list[str]) -> list[str]:
        """Publish platform events under these ids; return their replay ids in hex, oldest first."""
        return list(self.remote.post("events", topic=topic, events=events, ids=ids)["replay_ids"])

    def publish_raw(self, topic: str, payload: bytes, event_id: str) -> list[str]:
        """Publish a payload as it is by `Publish`, and return its replay id in hex.

        The payload may be undecodable.
        """
        import grpc

        from airflow_provider_sfevents.proto.pubsub_api_pb2 import ProducerEvent, PublishRequest
        from airflow_provider_sfevents.proto.pubsub_api_pb2_grpc import PubSubStub

        event = ProducerEvent(
            id=event_id, schema_id=self._topic(topic)["schema_id"], payload=payload
        )
        with grpc.insecure_channel(self.where.endpoint) as channel:
            stub: Any = PubSubStub(channel)  # type: ignore[no-untyped-call]
            answer = stub.Publish(
                PublishRequest(topic_name=topic, events=[event]), metadata=self._headers()
            )
        return [one.replay_id.hex() for one in answer.results]

    def _headers(self) -> list[tuple[str, str]]:
        login = self.connection()
        asked = {
            "grant_type": "client_credentials",
            "client_id": login["login"],
            "client_secret": login["password"],
        }
        url = f"{self.where.url}/services/oauth2/token"
        with urlopen(url, data=urlencode(asked).encode(), timeout=30) as answer:  # noqa: S310
            session = json.load(answer)
        return [
            ("accesstoken", session["access_token"]),
            ("instanceurl", session["instance_url"]),
            ("tenantid", self.org_id),
        ]

    def deliveries(self, topic: str) -> int:
        """Count deliveries on a topic, by this process and its predecessors."""
        return self._delivered_before.get(topic, 0) + self._counts().get(topic, 0)

    def wait_no_subscriber(self, topic: str, timeout_seconds: float = 120) -> None:
        """Wait until no stream subscribes to the topic.

        The stream of a killed client ends only after the server has noticed.
        """
        until = time.monotonic() + timeout_seconds
        while self._topic(topic)["subscribers"]:
            assert time.monotonic() < until, f"a stream still subscribes to {topic}"
            time.sleep(0.02)

    def _topic(self, name: str) -> dict[str, Any]:
        [found] = [one for one in self.remote.get("topics")["topics"] if one["topic"] == name]
        return dict(found)

    def _counts(self) -> dict[str, int]:
        try:
            topics = self.remote.get("topics")["topics"]
        except EmulatorError:
            return {}
        return {str(one["topic"]): int(one["delivered"]) for one in topics}
