"""Discovery against scripted answers, as real orgs may give them and the emulator does not."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import TYPE_CHECKING, Any

import pytest
from anyio import to_thread

from airflow_provider_sfevents.commands import topics
from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ConfigurationError,
    QuotaExceededError,
    SfEventsError,
    TransportError,
)
from airflow_provider_sfevents.hooks.sfevents import SfEventsHook
from airflow_provider_sfevents.pubsub.auth.secret import Secret
from airflow_provider_sfevents.pubsub.auth.session_cache import SessionCache
from airflow_provider_sfevents.pubsub.auth.settings import SessionToken, Settings
from airflow_provider_sfevents.pubsub.rest.event_channels import list_topics, read_members
from airflow_provider_sfevents.pubsub.rest.offered_topics import EventChannelMember, OfferedTopic
from airflow_provider_sfevents.pubsub.rest.org_limits import DELIVERIES, require_allowance
from airflow_provider_sfevents.pubsub.rest.rest_calls import RestCalls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.integration.pubsub.conftest import LoginServer

pytestmark = pytest.mark.anyio
DATE = {"date": "Sat, 21 Nov 2026 12:00:00 GMT"}
CHANNEL_ID = "0YL000000000001"
OBJECTS = {
    "sobjects": [
        {"name": "Order__e", "label": "Order", "queryable": False},
        {"name": "AccountChangeEvent", "label": "Account Change Event", "queryable": False},
        {"name": "CaseChangeEvent", "label": "Case Change Event", "queryable": False},
    ]
}
NO_SETUP = [{"errorCode": "INSUFFICIENT_ACCESS", "message": "no access to setup"}]


@pytest.fixture
async def rest(login_server: LoginServer) -> AsyncIterator[RestCalls]:
    login = SessionToken(token=Secret("00D000000000001!secret"), instance_url=login_server.url)
    async with RestCalls(Settings(login=login), sessions=SessionCache(), pause_seconds=0.0) as rest:
        yield rest


def says(server: LoginServer, *answers: Any) -> None:
    """The scripted answers in order, each JSON or a status with JSON."""
    server.answers = [
        (one[0], DATE, one[1]) if isinstance(one, tuple) else (200, DATE, one) for one in answers
    ] + [(418, DATE, {"unasked": True})]


def rows(*records: dict[str, Any], more: str = "") -> dict[str, Any]:
    page = {"totalSize": len(records), "done": not more, "records": list(records)}
    return {**page, "nextRecordsUrl": more} if more else page


def channel(**changes: Any) -> dict[str, Any]:
    known = {"Id": f"{CHANNEL_ID}GAA", "DeveloperName": "Sales", "MasterLabel": "Sales"}
    return {**known, "ChannelType": "event", "NamespacePrefix": None, **changes}


def member(channel: str, event: str, record_id: str = "0v8000000000001AAA") -> dict[str, Any]:
    return {"Id": record_id, "EventChannel": channel, "SelectedEntity": event}


def metadata(channel: str, event: str, **more: Any) -> dict[str, Any]:
    return {"Metadata": {"eventChannel": channel, "selectedEntity": event, **more}}


async def listed(rest: RestCalls) -> list[OfferedTopic]:
    found, problem = await list_topics(rest)
    assert problem == ""
    return found


async def test_members_that_call_their_channel_by_its_id(
    rest: RestCalls, login_server: LoginServer
) -> None:
    """A channel's id of 15 or 18 characters leads to its name without another request."""
    says(
        login_server,
        OBJECTS,
        rows(channel()),
        rows(member(CHANNEL_ID, "Order__e"), member("ChangeEvents", "AccountChangeEvent")),
    )
    found = {one.topic: one for one in await listed(rest)}
    assert found["/event/Sales__chn"].members == ("Order__e",)
    assert found["/data/ChangeEvents"].members == ("AccountChangeEvent",)
    assert "/data/CaseChangeEvent" not in found
    assert not any("PlatformEventChannelMember/" in path for path in login_server.paths)


async def test_members_told_by_ids_alone(rest: RestCalls, login_server: LoginServer) -> None:
    """A member with unknown ids is read as a record, which has the names."""
    says(
        login_server,
        OBJECTS,
        rows(),
        rows(member("0YL000000000009AAA", "01I000000000009AAA")),
        metadata("ChangeEvents", "AccountChangeEvent"),
    )
    found = {one.topic: one for one in await listed(rest)}
    assert found["/data/ChangeEvents"].members == ("AccountChangeEvent",)
    assert login_server.paths[3].endswith(
        "/tooling/sobjects/PlatformEventChannelMember/0v8000000000001AAA"
    )


async def test_rows_of_several_pages(rest: RestCalls, login_server: LoginServer) -> None:
    """A query of several pages is read completely."""
    says(
        login_server,
        OBJECTS,
        rows(channel(), more="/services/data/v60.0/tooling/query/01g-1"),
        rows(channel(Id="0YL000000000002AAA", DeveloperName="Lager", ChannelType="data")),
        rows(),
    )
    found = [one.topic for one in await listed(rest)]
    assert "/event/Sales__chn" in found
    assert "/data/Lager__chn" in found


async def test_a_channel_of_a_package(rest: RestCalls, login_server: LoginServer) -> None:
    """The name of a package's channel begins with the package's prefix."""
    says(login_server, OBJECTS, rows(channel(NamespacePrefix="acme")), rows())
    assert "/event/acme__Sales__chn" in [one.topic for one in await listed(rest)]


@pytest.mark.parametrize(
    "missing", [(404, [{"errorCode": "NOT_FOUND", "message": "No."}]), (404, "")]
)
async def test_an_org_without_describe(
    rest: RestCalls, login_server: LoginServer, missing: tuple[int, Any]
) -> None:
    """The error of a missing resource names the instance URL and a gateway, not an object."""
    says(login_server, missing)
    with pytest.raises(
        ConfigurationError, match=r"Listing the org's objects.*instance URL"
    ) as told:
        await list_topics(rest)
    assert "object's name" not in str(told.value)


async def test_topics_of_the_streaming_api(rest: RestCalls, login_server: LoginServer) -> None:
    """PushTopics and generic channels come last; an org that refuses to tell has none."""
    pushed, generic = rows({"Name": "Orders", "Description": "All"}), rows({"Name": "/u/News"})
    says(login_server, OBJECTS, rows(), rows(), pushed, generic)
    last = [(one.topic, one.label) for one in (await listed(rest))[-2:]]
    assert last == [("/topic/Orders", "All"), ("/u/News", "")]
    refused = (400, [{"errorCode": "INVALID_TYPE", "message": "sObject type is not supported"}])
    says(login_server, OBJECTS, rows(), rows(), refused, refused)
    assert not any(one.topic.startswith(("/topic", "/u/")) for one in await listed(rest))


async def test_a_user_without_permission_for_the_setup(
    rest: RestCalls, login_server: LoginServer
) -> None:
    """Without permission for the setup topics come without channels; the reason names it."""
    says(login_server, OBJECTS, (403, NO_SETUP))
    found, problem = await list_topics(rest)
    assert {one.topic: one.selected for one in found} == {
        "/event/Order__e": None,
        "/data/AccountChangeEvent": None,
        "/data/CaseChangeEvent": None,
        "/data/ChangeEvents": None,
    }
    assert "HTTP 403 INSUFFICIENT_ACCESS no access to setup" in problem
    assert "View Setup and Configuration" in problem


async def test_hook_and_command_tell_what_they_leave_out(
    login_server: LoginServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The hook logs the reason for missing channels; the command prints it beside its output."""
    token = {"auth": "session", "session_token": "00D000000000001!x"}
    connection = {"conn_type": "sfevents", "host": login_server.url, "extra": token}
    monkeypatch.setenv("AIRFLOW_CONN_SF_TEST", json.dumps(connection))
    says(login_server, *(OBJECTS, (403, NO_SETUP), rows(), rows()) * 2)
    found = await to_thread.run_sync(SfEventsHook("sf_test").list_topics)
    assert "/event/Order__e" in [one.topic for one in found]
    assert "View Setup and Configuration" in caplog.text
    capsys.readouterr()
    args = Namespace(conn_id="sf_test", all=False, output="json", verbose=False)
    await to_thread.run_sync(topics.list_, args)
    shown = capsys.readouterr()
    assert "/event/Order__e" in [one["topic"] for one in json.loads(shown.out)]
    assert "View Setup and Configuration" in shown.err


async def test_what_is_on_one_channel(rest: RestCalls, login_server: LoginServer) -> None:
    """Only members of the channel are read, with filter and enriched fields."""
    says(
        login_server,
        rows(channel()),
        rows(member("ChangeEvents", "AccountChangeEvent"), member(CHANNEL_ID, "Order__e")),
        metadata(
            "Sales__chn",
            "Order__e",
            enrichedFields=[{"name": "City__c"}],
            filterExpression="Amount__c > 5",
        ),
    )
    assert await read_members(rest, "Sales__chn") == [
        EventChannelMember(
            channel="Sales__chn",
            event="Order__e",
            enriched=("City__c",),
            filter="Amount__c > 5",
        )
    ]
    assert len(login_server.paths) == 3


async def test_a_channel_that_no_user_may_read(rest: RestCalls, login_server: LoginServer) -> None:
    """Without the permission for the setup the members of a channel are an error."""
    says(login_server, (403, NO_SETUP))
    with pytest.raises(ConfigurationError, match=r"channel Sales__chn: HTTP 403"):
        await read_members(rest, "Sales__chn")


def left(deliveries: int) -> dict[str, Any]:
    return {DELIVERIES: {"Max": 25_000, "Remaining": deliveries}}


async def test_enough_is_left(
    rest: RestCalls, login_server: LoginServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The check costs one request and logs the remaining deliveries."""
    caplog.set_level("INFO")
    says(login_server, left(500))
    await require_allowance(rest, "/event/Order__e", 500)
    assert login_server.paths == ["/services/data/v60.0/limits"]
    assert "500 of 25000 deliveries left" in caplog.text


async def test_a_stream_that_does_not_count(rest: RestCalls, login_server: LoginServer) -> None:
    """A topic of real-time event monitoring is exempt, so no request is made."""
    await require_allowance(rest, "/event/LoginEventStream", 500)
    assert login_server.paths == []


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        pytest.param(503, [], TransportError, id="away"),
        pytest.param(403, NO_SETUP, ConfigurationError, id="not allowed"),
        pytest.param(
            401,
            [{"errorCode": "INVALID_SESSION_ID", "message": "Session expired or invalid"}],
            AuthenticationError,
            id="session",
        ),
        pytest.param(
            403,
            [{"errorCode": "REQUEST_LIMIT_EXCEEDED", "message": "TotalRequests Limit exceeded."}],
            QuotaExceededError,
            id="no API requests left",
        ),
        pytest.param(200, {}, ConfigurationError, id="not told"),
    ],
)
async def test_an_allowance_that_cannot_be_read(
    rest: RestCalls, login_server: LoginServer, status: int, body: Any, kind: type[SfEventsError]
) -> None:
    """An unreadable allowance refuses to begin, with an error of the class of its cause."""
    login_server.answers = [(status, DATE, body)]
    with pytest.raises(kind, match=r"no events were requested \(min_allowance=500\)"):
        await require_allowance(rest, "/event/Order__e", 500)


async def test_a_session_token_that_has_ended(rest: RestCalls, login_server: LoginServer) -> None:
    """An expired session token is not retried, and the error has the remedy."""
    login_server.answers = [(401, DATE, [{"errorCode": "INVALID_SESSION_ID", "message": "x"}])]
    with pytest.raises(AuthenticationError, match="give a fresh one"):
        await list_topics(rest)
    assert len(login_server.paths) == 1


async def test_a_page_in_place_of_an_answer(rest: RestCalls, login_server: LoginServer) -> None:
    """A page that is not JSON raises an error with the request and the page's beginning."""
    login_server.answers = [(200, DATE, "<html>sign on</html>")]
    with pytest.raises(TransportError, match=r"^Asking: the answer is not JSON.*<html>sign on"):
        await rest.get("/sobjects", "Asking")
