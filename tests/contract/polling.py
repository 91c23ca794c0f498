"""A minimal client of the Streaming API: Bayeux messages as JSON over HTTP, with cookies."""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.contract.wire import ANSWER_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

    from tests.contract.orgs import OrgUnderTest

Message = dict[str, Any]
POLL_SECONDS = 110.0 + ANSWER_SECONDS
"""A connect may be held for the first of these."""


class Poller:
    """Client of an org's CometD endpoint.

    :param headers: in place of the token of the run.
    :param path: of the endpoint.
    """

    def __init__(
        self,
        org: OrgUnderTest,
        *,
        headers: dict[str, str] | None = None,
        path: str = "/cometd/62.0",
    ) -> None:
        self._org = org
        self._ids = itertools.count(1)
        self.http = org.browser(headers=org.bearer if headers is None else headers)
        self.url = org.headers["instanceurl"] + path
        self.client_id = ""

    def post(self, *messages: Message) -> httpx.Response:
        """Send messages unchanged."""
        return self.http.post(self.url, json=list(messages), timeout=POLL_SECONDS)

    def say(self, channel: str, **fields: Any) -> list[Message]:
        """Send one message of this client and return the messages of the answer."""
        client = {"clientId": self.client_id} if self.client_id else {}
        message = {"channel": channel, "id": str(next(self._ids)), **client, **fields}
        answer = self.post(message)
        assert answer.status_code == 200, answer.text
        messages = list(answer.json())
        self._org.counter.delivered += sum("data" in one for one in messages)
        return messages

    def handshake(self) -> Message:
        [answer] = self.say(
            "/meta/handshake",
            version="1.0",
            minimumVersion="1.0",
            supportedConnectionTypes=["long-polling"],
            ext={"replay": True},
        )
        self.client_id = answer.get("clientId", "")
        return answer

    def connect(self, **changed: Any) -> list[Message]:
        return self.say("/meta/connect", **{"connectionType": "long-polling", **changed})

    def subscribe(self, channel: str, replay: Any = None) -> Message:
        """Subscribe, optionally from a replay id."""
        ext = {} if replay is None else {"ext": {"replay": {channel: replay}}}
        found = self.say("/meta/subscribe", subscription=channel, **ext)
        return found[-1]

    def take(self, count: int) -> list[Message]:
        """Connect until `count` events have come."""
        found: list[Message] = []
        while len(found) < count:
            answers = self.connect()
            assert answers[-1]["successful"], answers[-1]
            found += [one for one in answers if "data" in one]
        return found


@contextmanager
def polling(org: OrgUnderTest, **more: Any) -> Iterator[Poller]:
    """Client after its handshake and first connect; it disconnects, because orgs limit clients."""
    client = Poller(org, **more)
    with client.http:
        assert client.handshake()["successful"]
        try:
            assert client.connect()[-1]["successful"]
            yield client
        finally:
            client.say("/meta/disconnect")


def place(replay_id: bytes) -> int:
    """Replay id of the Pub/Sub API in the Streaming API's form."""
    return int.from_bytes(replay_id[:8], "big")
