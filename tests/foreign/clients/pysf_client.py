"""Driver of `pysfpubsub`: orders on stdin, the client's results on stdout, as JSON lines."""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

from pysfpubsub import Client


def say(**what: Any) -> None:
    sys.stdout.write(f"{json.dumps(what)}\n")
    sys.stdout.flush()


def seen(response: Any, client: Any) -> None:
    """Callback, as in the client's README."""
    if not response.events:
        say(said="keepalive", last=response.latest_replay_id.hex())
        return
    if response.pending_num_requested == 0:
        client.release_subscription_semaphore()
    for event in response.events:
        schema = client.get_schema_json(event.event.schema_id)
        payload = client.decode(schema, event.event.payload)
        say(said="event", id=event.event.id, replay_id=event.replay_id.hex(), payload=payload)


class Orders:
    """Orders to the client."""

    client: Any

    def auth(self, config: dict[str, Any]) -> dict[str, Any]:
        self.client = Client(**config)
        self.client.auth()
        return {"instance_url": self.client.url, "tenant_id": self.client.tenant_id}

    def topic(self, topic: str) -> dict[str, Any]:
        found = self.client.get_topic(topic)
        return {"can_publish": found.can_publish, "schema_id": found.schema_id}

    def subscribe(self, topic: str, replay_type: str, count: int, replay_id: str = "") -> None:
        arguments = (topic, replay_type, bytes.fromhex(replay_id), count, seen)
        threading.Thread(target=self._stream, args=arguments, daemon=True).start()

    def publish(self, topic: str, payloads: list[dict[str, Any]]) -> list[dict[str, str]]:
        schema_id = self.client.get_topic(topic).schema_id
        schema = self.client.get_schema_json(schema_id)
        events = [self.client.format_payload(schema, schema_id, payload) for payload in payloads]
        results = self.client.publish(topic, events).results
        return [{"replay_id": one.replay_id.hex(), "key": one.correlation_key} for one in results]

    def _stream(self, *arguments: Any) -> None:
        try:
            self.client.subscribe(*arguments)
        except Exception as error:  # noqa: BLE001 - told to the test, which knows what it waits for
            say(said="error", why=str(error))
        say(said="end")


def main() -> None:
    orders = Orders()
    for line in sys.stdin:
        given = json.loads(line)
        order = given.pop("order")
        try:
            say(said="done", order=order, result=getattr(orders, order)(**given))
        except Exception as error:  # noqa: BLE001 - told to the test
            say(said="refused", order=order, why=f"{type(error).__name__}: {error}")
    os._exit(0)  # the client has no way to end its stream


if __name__ == "__main__":
    main()
