"""Push requests of generic channels: `/sobjects/StreamingChannel/<id>/push`.

Source: Streaming API Developer Guide, "Streaming Channel Push".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.routing import Route

from airflow_provider_sfevents.emulator import salesforce_ids
from airflow_provider_sfevents.emulator.bus.streaming_events import generic_event
from airflow_provider_sfevents.emulator.org.record_errors import not_found
from airflow_provider_sfevents.emulator.org.streaming.generic_channels import (
    STREAMING_CHANNEL,
    push_result,
    pushed,
)

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.http.rest.rest_requests import RestGate, RestRequest
    from airflow_provider_sfevents.emulator.org.database import Database
    from airflow_provider_sfevents.emulator.state.cometd_clients import CometdClients

_PATH = f"/services/data/v{{version}}/sobjects/{STREAMING_CHANNEL}/{{record_id}}/push"


class StreamingChannelResource:
    """Push routes of one org.

    :param clients: CometD clients of the emulator.
    """

    def __init__(self, database: Database, clients: CometdClients, org_id: str) -> None:
        self._database = database
        self._clients = clients
        self._org_id = org_id

    def routes(self, gate: RestGate) -> list[Route]:
        return [
            Route(_PATH, gate.serving(self._online), methods=["GET"]),
            Route(_PATH, gate.serving(self._push), methods=["POST"]),
        ]

    def _online(self, asked: RestRequest) -> Any:
        channel = self._channel(asked)
        users = self._clients.subscribers(self._org_id, channel)
        return {"OnlineUserIds": list(dict.fromkeys(users)), "ChannelName": channel}

    def _push(self, asked: RestRequest) -> Any:
        channel, wanted = self._channel(asked), pushed(asked.json())
        online = self._clients.subscribers(self._org_id, channel)
        at = self._database.clock.now()
        self._database.bus.append(
            channel, [generic_event(payload, user_ids, at) for payload, user_ids in wanted]
        )
        return [push_result(user_ids, online) for _, user_ids in wanted]

    def _channel(self, asked: RestRequest) -> str:
        """Name of the channel that the path names."""
        record_id = asked.path["record_id"]
        if not salesforce_ids.is_id(record_id):
            raise not_found()
        record = self._database.record(STREAMING_CHANNEL, salesforce_ids.long_id(record_id[:15]))
        if record is None or record.deleted_at is not None:
            raise not_found()
        return str(record.get("Name"))
