"""A minimal client of the Streaming API: JSON over httpx with a cookie jar, no package code."""

from __future__ import annotations

import itertools
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_sfevents.emulator import Emulator, Org

Message = dict[str, Any]
UNKNOWN = "403::Unknown client"


class Cometd:
    """Client of one org with a valid token, or with the given headers."""

    def __init__(
        self, bus: Emulator, *, org: Org | None = None, headers: dict[str, str] | None = None
    ) -> None:
        extra = bus.connection("session", org)["extra"]
        self.token = str(extra["session_token"])
        good = {"Authorization": f"Bearer {self.token}"}
        self.http = httpx.Client(
            base_url=extra["instance_url"], headers=good if headers is None else headers, timeout=20
        )
        self.client_id = ""
        self.path = "/cometd/64.0"
        self._ids = itertools.count(1)
        self._threads = ThreadPoolExecutor(4)

    def post(self, *messages: Message) -> httpx.Response:
        return self.http.post(self.path, json=list(messages))

    def say(self, *messages: Message) -> list[Message]:
        """Send messages and return all messages of the answer."""
        answer = self.post(*messages)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "application/json;charset=UTF-8"
        return list(answer.json())

    def message(self, channel: str, **more: Any) -> Message:
        """Build a message of this client's session, with an id of its own."""
        return {"channel": channel, "clientId": self.client_id, "id": str(next(self._ids)), **more}

    def handshake(self) -> Message:
        message = {
            "channel": "/meta/handshake",
            "version": "1.0",
            "minimumVersion": "1.0",
            "supportedConnectionTypes": ["long-polling"],
            "ext": {"replay": True},
            "id": str(next(self._ids)),
        }
        [answer] = self.say(message)
        self.client_id = answer.get("clientId", "")
        return answer

    def connect(self, **changed: Any) -> list[Message]:
        return self.say(self.connecting(**changed))

    def connecting(self, **changed: Any) -> Message:
        return self.message("/meta/connect", **{"connectionType": "long-polling", **changed})

    def begin_connect(self) -> Future[list[Message]]:
        """Send a connect without waiting for its answer."""
        return self._threads.submit(self.connect)

    def wait_held(self, bus: Emulator, *, held: bool = True) -> None:
        """Wait until the server holds a connect of this client, or none."""
        deadline = datetime.now(UTC) + timedelta(seconds=10)
        while True:
            found = bus._state.cometd.find(self.client_id, bus.org.org_id, 0.0)
            assert found is not None
            if (found.held is not None) is held:
                return
            assert datetime.now(UTC) < deadline

    def subscribe(self, channel: str, replay: int | None = None, **more: Any) -> Message:
        ext = {} if replay is None else {"ext": {"replay": {channel: replay}}}
        [answer] = self.say(self.message("/meta/subscribe", subscription=channel, **ext, **more))
        return answer

    def open(self) -> Cometd:
        """Send a handshake and the first connect."""
        assert self.handshake()["successful"]
        assert self.connect()[-1]["successful"]
        return self

    def take(self, count: int) -> list[Message]:
        """Connect until `count` events have come."""
        events: list[Message] = []
        while len(events) < count:
            *found, last = self.connect()
            assert last["successful"], last
            events += found
        return events

    def close(self) -> None:
        self.http.close()
        self._threads.shutdown()


@contextmanager
def opened(bus: Emulator, org: Org | None = None) -> Iterator[Cometd]:
    """Client after its handshake and first connect."""
    client = Cometd(bus, org=org)
    try:
        yield client.open()
    finally:
        client.close()


def values(events: list[Message], field: str) -> list[Any]:
    """Values of one field of all events."""
    return [event["data"]["payload"][field] for event in events]
