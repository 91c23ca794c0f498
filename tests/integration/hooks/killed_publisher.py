"""A publishing task without Airflow: in this process, or in one that dies at a named step."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from upath import UPath

from airflow_provider_sfevents.hooks.publish_task import RecordsToPublish, Tally, publish_records
from airflow_provider_sfevents.pubsub.auth.secret import Secret
from airflow_provider_sfevents.pubsub.auth.settings import ClientCredentials, Settings
from airflow_provider_sfevents.pubsub.client import PubSubClient
from airflow_provider_sfevents.pubsub.publishing.event_encoder import numbered
from airflow_provider_sfevents.staging.manifest import Run
from tests.harness import deaths

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_sfevents.pubsub.publishing.event_encoder import GivenRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishingTask:
    """One task of one run, try after try."""

    login_url: str
    client_id: str
    client_secret: str
    endpoint: str
    topic: str
    root: str
    count: int

    def killed_at(self, step: str, nth: int) -> None:
        """Run a try that dies at a step."""
        deaths.kill_at(step, nth, __name__, asdict(self))

    def published(self) -> Tally:
        """Run a try that is not killed."""
        return asyncio.run(self._publish())

    @property
    def _settings(self) -> Settings:
        login = ClientCredentials(
            login_url=self.login_url,
            client_id=self.client_id,
            client_secret=Secret(self.client_secret),
        )
        return Settings(login=login, endpoint=self.endpoint, plaintext=True)

    @property
    def _to_publish(self) -> RecordsToPublish:
        return RecordsToPublish(
            topic=self.topic,
            source=self._records,
            run=Run(dag="orders", run="r1", task="publish"),
            root=UPath(self.root),
        )

    def _records(self) -> Iterator[GivenRecord]:
        records: list[dict[str, Any]] = [
            {"Order_Number__c": f"K-{number}"} for number in range(1, self.count + 1)
        ]
        return numbered(records)

    async def _publish(self) -> Tally:
        tally = Tally()
        async with PubSubClient(self._settings) as client:
            await publish_records(client, self._to_publish, tally)
        return tally


if __name__ == "__main__":
    PublishingTask(**deaths.told_and_doomed()).published()
