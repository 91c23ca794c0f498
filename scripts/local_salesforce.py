"""An emulated Salesforce for `make demo` and `make ui`, in its own process, and its events."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import sys
import time
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator.cli.remote import EmulatorAddress, Remote, state_file
from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.pubsub.auth.secret import Secret
from airflow_provider_sfevents.pubsub.auth.settings import ClientCredentials, Settings
from airflow_provider_sfevents.pubsub.client import PubSubClient
from scripts.processes import CannotRunError, running, what_went_wrong
from scripts.story import chapter

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    from airflow_provider_sfevents.emulator.org.sample_org import SampleEvent

READY_SECONDS = 60
_ALL = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSalesforce:
    """A running emulator.

    :param endpoint: `host:port` of its Pub/Sub API.
    :param told: file with the number of events that were published so far.
    """

    endpoint: str
    remote: Remote
    told: Path

    @classmethod
    @contextlib.contextmanager
    def running(cls, place: Path, environment: dict[str, str]) -> Iterator[LocalSalesforce]:
        """An emulator for the length of a block; what is on its bus is there again the next time.

        :param place: folder; takes the emulator's folder and its log.
        :raises CannotRunError: when it does not start.
        """
        folder, log = place / "salesforce", place / "logs" / "salesforce.log"
        state = state_file(str(folder))
        state.unlink(missing_ok=True)  # of one that was killed
        command = [sys.executable, "-m", "airflow_provider_sfevents.emulator", "start", "--sample"]
        command += ["--folder", str(folder)]
        # Free ports and not those of the last time, which something else may have by now.
        for option in ("--grpc-port", "--http-port", "--login-port"):
            command += [option, str(free_port())]
        with running(command, log=log, environment=environment, folder=place) as process:
            where = _wait_ready(process, state, log)
            yield cls(
                endpoint=where.endpoint,
                remote=where.remote(),
                told=place / "told",
            )

    def connection(self) -> dict[str, Any]:
        """Airflow connection to it."""
        found: dict[str, Any] = self.remote.get("connection", auth="client_credentials")
        return found

    def go_on(self, count: int) -> list[SampleEvent]:
        """Publish the next `count` events of the story.

        Platform events go by `Publish` over gRPC, changes by the emulator's command.
        """
        so_far = int(self.told.read_text()) if self.told.exists() else 0
        happenings = chapter(so_far, count)
        for topic, events in groupby(
            happenings, lambda one: one.topic if not one.record_id else ""
        ):
            if topic:
                asyncio.run(self._publish(topic, [one.fields for one in events]))
            else:
                self._change(list(events))
        self.told.write_text(str(so_far + count))
        return happenings

    def delivered(self, topic: str) -> int:
        """Count deliveries on a topic since the start of the emulator, as Salesforce bills them."""
        [found] = [one for one in self.remote.get("topics")["topics"] if one["topic"] == topic]
        return int(found["delivered"])

    def published(self) -> dict[str, int]:
        """Events on the bus by topic, each event once: channels have those of their members."""
        found = self.remote.get("topics")["topics"]
        return {
            one["topic"]: one["retained"] for one in found if one["retained"] and not one["members"]
        }

    def waiting(self, topic: str, after: str = "") -> int:
        """Events of a topic on the bus.

        :param after: only those after this replay id.
        """
        found = self.remote.get("events", topic=topic, last=_ALL)["events"]
        ids = [event["replay_id"] for event in found]
        return len(ids) - (ids.index(after) + 1 if after else 0)

    async def _publish(self, topic: str, events: list[dict[str, Any]]) -> None:
        told = self.connection()
        login = ClientCredentials(
            login_url=told["host"], client_id=told["login"], client_secret=Secret(told["password"])
        )
        settings = Settings(login=login, endpoint=self.endpoint, plaintext=True)
        async with PubSubClient(settings) as client:
            results = await client.publish(topic, events)
        if refused := [one.error for one in results if one.error]:
            raise CannotRunError(f"publishing to {topic} was refused: {refused[0]}")

    def _change(self, happenings: list[SampleEvent]) -> None:
        for one in happenings:
            self.remote.post(
                "changes",
                entity=one.topic,
                change_type=one.change_type,
                record_ids=[one.record_id],
                fields={name: _plain(value) for name, value in one.fields.items()},
            )


def free_port() -> int:
    """A port that nothing listens on just now.

    It is below those that the kernel chooses from, so that no connection gets it meanwhile.
    """
    while True:
        port = random.randint(20_000, 32_000)  # noqa: S311 - any free one
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value


def _wait_ready(process: subprocess.Popen[bytes], state: Path, log: Path) -> EmulatorAddress:
    until = time.monotonic() + READY_SECONDS
    while process.poll() is None and time.monotonic() < until:
        with contextlib.suppress(EmulatorError):
            return EmulatorAddress.read(state)
        time.sleep(0.05)
    why = "it did not answer" if process.poll() is None else what_went_wrong(log)[-1]
    raise CannotRunError(
        f"the emulated Salesforce did not start: {why.removeprefix('error: ')} (see "
        f"{os.path.relpath(log)})"
    )
