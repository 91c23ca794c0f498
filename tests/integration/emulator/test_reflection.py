"""Server reflection: a tool without the .proto can call the service."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from airflow_provider_sfevents.emulator import Emulator
from tests.integration.emulator.conftest import headers_of, trusting


def _channel(bus: Emulator) -> grpc.Channel:
    if bus.ca_file:
        return grpc.secure_channel(bus.endpoint, trusting(bus.ca_file))
    return grpc.insecure_channel(bus.endpoint)


@pytest.mark.parametrize("tls", [False, True], ids=["plaintext", "tls"])
def test_services_and_messages_are_described(tls: bool) -> None:
    """The service, its RPCs and messages are described without any header."""
    with Emulator(tls=tls) as bus, _channel(bus) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        assert "eventbus.v1.PubSub" in database.get_services()
        pool = DescriptorPool(database)
        service = pool.FindServiceByName("eventbus.v1.PubSub")
        assert {
            one.name: (one.client_streaming, one.server_streaming) for one in service.methods
        } == {
            "Subscribe": (True, True),
            "GetSchema": (False, False),
            "GetTopic": (False, False),
            "Publish": (False, False),
            "PublishStream": (True, True),
            "ManagedSubscribe": (True, True),
        }
        fetch = pool.FindMessageTypeByName("eventbus.v1.ManagedFetchRequest")
        assert [field.name for field in fetch.fields] == [
            "subscription_id",
            "developer_name",
            "num_requested",
            "auth_refresh",
            "commit_replay_id_request",
        ]
        bus.check()


@pytest.mark.parametrize(
    ("symbol", "found"),
    [
        ("eventbus.v1.PubSub", True),
        ("eventbus.v1.PubSub.ManagedSubscribe", True),
        ("eventbus.v1.CommitReplayRequest", True),
        ("eventbus.v1.PubSub.Nothing", False),
        ("eventbus.v1.Nothing.Nothing", False),
    ],
)
def test_symbols_are_found_by_name(symbol: str, found: bool) -> None:
    """Services, methods and messages are found by name; unknown names are not."""
    with Emulator() as bus, _channel(bus) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        if found:
            assert database.FindFileContainingSymbol(symbol).package == "eventbus.v1"
        else:
            with pytest.raises(KeyError):
                database.FindFileContainingSymbol(symbol)
        bus.check()


def test_a_call_can_be_made_from_what_is_described() -> None:
    """A call built from the description alone is answered."""
    with Emulator() as bus, _channel(bus) as channel:
        topic = bus.define_event("Order__e", {"Number__c": "Text"})
        pool = DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
        method = pool.FindServiceByName("eventbus.v1.PubSub").methods_by_name["GetTopic"]
        asked: Any = GetMessageClass(method.input_type)
        answered: Any = GetMessageClass(method.output_type)
        get_topic = channel.unary_unary(
            "/eventbus.v1.PubSub/GetTopic", asked.SerializeToString, answered.FromString
        )
        info = get_topic(asked(topic_name=topic), metadata=tuple(headers_of(bus).items()))
        assert (info.topic_name, info.schema_id) == (topic, bus.schema_id(topic))
        bus.check()
