"""Three headers on every RPC, and the trailers of every refusal."""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.wire import PREFIX, Refused, refused

if TYPE_CHECKING:
    from tests.contract.orgs import OrgUnderTest
    from tests.contract.wire import Client

RPCS = ("GetTopic", "GetSchema", "Publish", "PublishStream", "Subscribe", "ManagedSubscribe")
UUID = r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"


def call(org: OrgUnderTest, rpc: str, client: Client) -> Refused:
    """Refusal of this RPC."""
    match rpc:
        case "GetTopic":
            return refused(client.get_topic, org.topic)
        case "GetSchema":
            return refused(client.get_schema, org.schema_id)
        case "Publish":
            return refused(client.publish, org.topic)
        case _:
            return _stream(org, rpc, client)


def _stream(org: OrgUnderTest, rpc: str, client: Client) -> Refused:
    starts: dict[str, Any] = {
        "PublishStream": lambda: client.publishing(topic_name=org.topic),
        "Subscribe": lambda: client.subscribe(topic_name=org.topic, num_requested=1),
        "ManagedSubscribe": lambda: client.managed(developer_name="X", num_requested=1),
    }
    with starts[rpc]() as stream:
        return Refused(*stream.end())


@pytest.mark.parametrize("missing", ["accesstoken", "instanceurl", "tenantid"])
@pytest.mark.parametrize("rpc", RPCS)
def test_a_missing_header_is_refused(org: OrgUnderTest, rpc: str, missing: str) -> None:
    """Each RPC needs `accesstoken`, `instanceurl` and `tenantid`.

    Source: .proto, Handle Errors page.
    """
    headers = {name: value for name, value in org.headers.items() if name != missing}
    found = call(org, rpc, org.client.with_headers(headers))
    assert found.what == ("UNAUTHENTICATED", "service.auth.headers.invalid")


@pytest.mark.parametrize("blank", ["accesstoken", "instanceurl", "tenantid"])
def test_a_blank_header_is_refused(org: OrgUnderTest, blank: str) -> None:
    """A blank header is refused like a missing one. Source: Handle Errors page."""
    found = call(org, "GetTopic", org.client.with_headers({**org.headers, blank: " "}))
    assert found.what == ("UNAUTHENTICATED", "service.auth.headers.invalid")


@pytest.mark.parametrize("rpc", RPCS)
def test_a_wrong_token_is_refused(org: OrgUnderTest, rpc: str) -> None:
    """An unknown token is an authentication error on each RPC.

    Source: Handle Errors page, live logs.
    """
    wrong = f"{org.headers['tenantid'][:15]}!AQEAQwrong.token"
    found = call(org, rpc, org.client.with_headers({**org.headers, "accesstoken": wrong}))
    assert found.what == ("UNAUTHENTICATED", "service.auth.error")
    assert "authentication exception occurred" in found.message


@pytest.mark.parametrize(
    "changed",
    [{"tenantid": "00D000000000001AAA"}, {"instanceurl": "https://unknown.my.salesforce.com"}],
    ids=["org", "instance"],
)
def test_a_token_goes_with_its_org_and_instance(org: OrgUnderTest, changed: dict[str, str]) -> None:
    """Org and instance URL must be those of the session.

    Source: Use gRPC APIs page (headers), live logs.
    """
    found = call(org, "GetTopic", org.client.with_headers({**org.headers, **changed}))
    assert found.status == "UNAUTHENTICATED"


def test_an_org_id_of_15_characters_will_do(org: OrgUnderTest) -> None:
    """An org id of 15 characters is accepted, as Salesforce's Node client sends it.

    Source: that client.
    """
    client = org.client.with_headers({**org.headers, "tenantid": org.headers["tenantid"][:15]})
    assert client.get_topic(org.topic).topic_name == org.topic


def test_a_client_trace_id_is_allowed(org: OrgUnderTest) -> None:
    """A UUID in `x-client-trace-id` is accepted. Source: Salesforce's Java sample."""
    client = org.client.with_headers({**org.headers, "x-client-trace-id": str(uuid.uuid4())})
    assert client.get_topic(org.topic).topic_name == org.topic


@pytest.mark.parametrize("rpc", RPCS)
def test_a_refusal_has_its_trailers(org: OrgUnderTest, rpc: str) -> None:
    """`error-code` with Salesforce's prefix, `rpc-id`, and in `type` the RPC.

    Source: Handle Errors page, live logs.
    """
    found = call(org, rpc, org.client.with_headers({**org.headers, "accesstoken": "wrong"}))
    assert found.trailers["error-code"].startswith(PREFIX)
    assert re.fullmatch(UUID, found.trailers["rpc-id"])
    assert found.trailers["type"] == rpc


def test_a_refusals_message_ends_with_the_rpc_id(org: OrgUnderTest) -> None:
    """The text ends with ` rpcId: ` and the id, which support asks for.

    Source: Handle Errors page, live logs.
    """
    found = refused(org.client.get_topic, "/event/No_Such__e")
    assert re.search(rf" rpcId: {UUID}$", found.message)


def test_an_answer_has_an_rpc_id_too(org: OrgUnderTest) -> None:
    """Each answer of a unary RPC names its call. Source: .proto."""
    assert re.fullmatch(UUID, org.client.get_topic(org.topic).rpc_id)
    assert re.fullmatch(UUID, org.client.get_schema(org.schema_id).rpc_id)
