"""Messages of deliveries of the Pub/Sub API, in the shape that the Streaming API has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.client.event_decoding import MessagePayloadDecoder
from airflow_provider_sfevents.exceptions import SchemaUnknownError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery


class MessageMaker:
    """Maker of messages of one client; decoders are kept by schema id.

    :param get_schema: returns a schema as JSON; as `PubSubClient.get_schema`.
    :param raw: add the payload's bytes to each message as `data.raw`.
    """

    def __init__(self, get_schema: Callable[[str], Awaitable[str]], *, raw: bool) -> None:
        self._get_schema = get_schema
        self._raw = raw
        self._decoders: dict[str, MessagePayloadDecoder | str] = {}

    async def messages(self, channel: str, delivery: Delivery) -> AsyncIterator[dict[str, Any]]:
        """Yield the delivery's events as messages, in order.

        An event that cannot be decoded has `data.undecodable`, the reason, and `data.raw` in place
        of `data.payload`.

        :raises TransportError: a schema cannot be fetched just now.
        """
        columns = zip(
            delivery.ids, delivery.replay_ids, delivery.schema_ids, delivery.payloads, strict=True
        )
        for event_id, replay_id, schema_id, payload in columns:
            event = {"EventUuid": event_id, "replayId": replay_id.hex()}
            decoder = await self._decoder(schema_id)
            if not isinstance(decoder, str) and channel.endswith("__chn"):
                event["EventApiName"] = decoder.event_name
            data = {"schema": schema_id, **_content(decoder, payload), "event": event}
            if self._raw:
                data["raw"] = payload
            yield {"channel": channel, "data": data}

    async def _decoder(self, schema_id: str) -> MessagePayloadDecoder | str:
        """Return the decoder of a schema; otherwise the reason why there is none."""
        if schema_id not in self._decoders:
            try:
                self._decoders[schema_id] = MessagePayloadDecoder(await self._get_schema(schema_id))
            except (SchemaUnknownError, ValueError) as error:
                self._decoders[schema_id] = str(error)
        return self._decoders[schema_id]


def _content(decoder: MessagePayloadDecoder | str, payload: bytes) -> dict[str, Any]:
    """Return the payload's fields; otherwise its bytes and the reason why it does not decode."""
    if isinstance(decoder, str):
        return {"undecodable": decoder, "raw": payload}
    try:
        return {"payload": decoder.decode(payload)}
    except ValueError as error:
        return {"undecodable": str(error), "raw": payload}
