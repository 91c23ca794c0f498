"""Admin API of events: topics, events, definitions and the connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.routing import Route

from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.http.admin.admin_answers import Facts, answering
from airflow_provider_sfevents.emulator.org.sample_org import define_sample, publish_sample

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_sfevents.emulator.bus.topic import BusTopic
    from airflow_provider_sfevents.emulator.org.org import Org

    Connect = Callable[[str, Org], Facts]


class EventAdmin:
    """Admin routes of one org.

    :param connect: returns an Airflow connection to the org for a login.
    """

    def __init__(self, org: Org, connect: Connect) -> None:
        self._org = org
        self._connect = connect

    def routes(self) -> list[Route]:
        return [
            Route("/emulator/topics", answering(self._topics), methods=["GET"]),
            Route("/emulator/events", answering(self._events), methods=["GET"]),
            Route("/emulator/connection", answering(self._connection), methods=["GET"]),
            Route("/emulator/events", answering(self._publish), methods=["POST"]),
            Route("/emulator/sample", answering(self._sample), methods=["POST"]),
            Route("/emulator/definitions", answering(self._define), methods=["POST"]),
        ]

    def _topics(self, _: Facts) -> Any:
        subscriptions = self._org.subscriptions
        return {
            "org_id": self._org.org_id,
            "topics": [
                self._topic(topic, [s.topic for s in subscriptions if s.open])
                for topic in self._org.bus.topics
            ],
            "subscriptions": [
                {
                    "number": one.number,
                    "topic": one.topic,
                    "user": one.username,
                    "start": one.start,
                    "delivered": one.delivered,
                    "ended": one.ended,
                }
                for one in subscriptions
            ],
        }

    def _topic(self, topic: BusTopic, subscribed: list[str]) -> Facts:
        return {
            "topic": topic.name,
            "kind": topic.kind,
            "schema_id": topic.schema_id,
            "members": topic.members,
            "retained": len(self._org.bus.retained(topic.name)),
            "delivered": self._org.deliveries(topic.name),
            "subscribers": subscribed.count(topic.name),
        }

    def _events(self, asked: Facts) -> Any:
        return {"events": self._org.events(str(asked["topic"]), last=int(asked.get("last", 10)))}

    def _connection(self, asked: Facts) -> Any:
        return self._connect(str(asked.get("auth", "client_credentials")), self._org)

    def _publish(self, asked: Facts) -> Any:
        ids = asked.get("ids")
        if "raw" in asked:
            payloads = [bytes.fromhex(one) for one in asked["raw"]]
            schema_id = asked.get("schema_id", "")
            replay_ids = self._org.publish_raw(asked["topic"], payloads, schema_id, ids=ids)
        else:
            replay_ids = self._org.publish(asked["topic"], asked["events"], ids=ids)
        return {"replay_ids": [one.hex() for one in replay_ids]}

    def _sample(self, asked: Facts) -> Any:
        if not self._org.bus.topic("/event/Order__e"):
            define_sample(self._org)
        return {"published": publish_sample(self._org, int(asked["count"]), asked.get("seed"))}

    def _define(self, asked: Facts) -> Any:
        name = asked["name"]
        match asked["kind"]:
            case "event":
                return {"topic": self._org.define_event(name, asked["fields"])}
            case "entity":
                return {"topic": self._org.define_entity(name, asked["fields"])}
            case "object":
                return {"topic": self._org.define_object(name, asked["fields"])}
            case "channel":
                return {"topic": self._org.define_channel(name, asked["members"])}
        raise EmulatorError(f"kind {asked['kind']!r} is not one of event, entity, object, channel")
