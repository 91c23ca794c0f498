"""A task that stages a batch in a process of its own, which is killed at a named step."""

from __future__ import annotations

import asyncio
import json
from collections import UserDict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import override
from upath import UPath

from airflow_provider_sfevents.batches.outcome import BatchRequest
from airflow_provider_sfevents.batches.stage import stage_batch
from airflow_provider_sfevents.positions.stores import MappingStore
from airflow_provider_sfevents.pubsub.auth.secret import Secret
from airflow_provider_sfevents.pubsub.auth.settings import ClientCredentials, Settings
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.pubsub.client import PubSubClient
from airflow_provider_sfevents.staging.area import StagingArea
from airflow_provider_sfevents.staging.manifest import Run
from airflow_provider_sfevents.streaming.topic_client import StreamingTopicClient
from tests.harness import deaths

if TYPE_CHECKING:
    from tests.integration.batches.conftest import Consumer


def kill_at(
    consumer: Consumer, step: str, nth: int = 1, *, then: str = "", until: str = ""
) -> None:
    """Kill a first try of the consumer's next run at a step; the position that it wrote stays.

    :param then: as `deaths.kill_at` has it.
    :param until: bound of the batch, ISO 8601.
    """
    settings = consumer.settings
    login = settings.login
    assert isinstance(login, ClientCredentials)
    told: dict[str, Any] = {
        "login": [login.login_url, login.client_id, login.client_secret.reveal()],
        "endpoint": settings.endpoint,
        "root": str(consumer.root),
        "topic": consumer.topic,
        "managed": getattr(consumer, "managed", ""),
        "transport": consumer.transport,
        "max_events": consumer.bounds.max_events,
        "initial_replay": consumer.initial_replay,
        "until": until,
        "positions": str(consumer.root.with_name("positions.json")),
    }
    positions = KeptPositions(told["positions"])
    positions.update(consumer.positions)
    try:
        deaths.kill_at(step, nth, __name__, told, then)
    finally:
        consumer.positions.update(KeptPositions(told["positions"]))


class KeptPositions(UserDict[str, str]):
    """Positions in a file, which outlives the process that writes them."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        super().__init__()
        if self._path.exists():
            self.data = json.loads(self._path.read_text())

    @override
    def __setitem__(self, key: str, record: str) -> None:
        super().__setitem__(key, record)
        self._path.write_text(json.dumps(self.data))


async def _stage(told: dict[str, Any]) -> None:
    url, name, secret = told["login"]
    settings = Settings(
        login=ClientCredentials(login_url=url, client_id=name, client_secret=Secret(secret)),
        endpoint=told["endpoint"],
        plaintext=True,
    )
    request = BatchRequest(
        topic=told["topic"],
        consumer="orders",
        bounds=Bounds(
            idle_seconds=1.0,
            max_events=told["max_events"],
            until=datetime.fromisoformat(told["until"]) if told["until"] else None,
        ),
        run=Run(dag="orders", run="r1", task="land"),
        managed=told["managed"],
        transport=told["transport"],
        initial_replay=told["initial_replay"],
    )
    store = MappingStore(KeptPositions(told["positions"]), "orders")
    kind = StreamingTopicClient if told["transport"] == "streaming" else PubSubClient
    async with kind(settings) as client:
        area = StagingArea(UPath(told["root"]))
        await stage_batch(request, client, area, lambda _: store, asyncio.Event())


if __name__ == "__main__":
    asyncio.run(_stage(deaths.told_and_doomed()))
