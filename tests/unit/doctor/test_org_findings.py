"""Lines on an org: which answers are right, and which are faults."""

from __future__ import annotations

import pytest

from airflow_provider_sfevents.doctor import org_findings as lines
from airflow_provider_sfevents.doctor.findings import CheckStatus
from airflow_provider_sfevents.pubsub.auth.secret import Secret
from airflow_provider_sfevents.pubsub.auth.session import Session
from airflow_provider_sfevents.pubsub.auth.settings import (
    ClientCredentials,
    JwtBearer,
    SessionToken,
    SoapLogin,
)
from airflow_provider_sfevents.pubsub.rest.offered_topics import EventChannelMember, OfferedTopic
from airflow_provider_sfevents.pubsub.rest.org_limits import DELIVERIES, Allowance
from airflow_provider_sfevents.pubsub.topic_names import kind_of

OK, WARNING = CheckStatus.OK, CheckStatus.WARNING
FAILED, NOT_CHECKED = CheckStatus.FAILED, CheckStatus.NOT_CHECKED

URL = "https://acme.my.salesforce.com"
ORG = "00D000000000001AAA"
APP = ClientCredentials(login_url=URL, client_id="key", client_secret=Secret("hidden"))
JWT = JwtBearer(login_url=URL, client_id="key", username="me", private_key=Secret("hidden"))
SOAP = SoapLogin(login_url=URL, username="me", password=Secret("hidden"))
TOKEN = SessionToken(token=Secret("hidden"), instance_url=URL)


def session(*scopes: str, user_id: str = "") -> Session:
    return Session(
        token=Secret("hidden"),
        instance_url=URL,
        org_id=ORG,
        user_id=user_id,
        scopes=frozenset(scopes),
    )


def test_a_login_names_org_host_and_user() -> None:
    """The line of a login has what identifies it, and no secret."""
    line = lines.login_finding(session(user_id="005000000000001AAA"), APP)
    assert line.status is OK
    assert line.seen == f"Logged in to org {ORG} at {URL} as user 005000000000001AAA."
    assert "cannot be renewed" in lines.login_finding(session(), TOKEN).seen


def test_a_login_that_ends_soon_is_a_warning() -> None:
    """The SOAP login works, and its line names the end."""
    line = lines.login_finding(session(), SOAP)
    assert (line.status, "Summer '27" in line.remedy) == (WARNING, True)


@pytest.mark.parametrize(
    ("scopes", "status"),
    [
        (("api", "id"), OK),
        (("full", "refresh_token"), OK),
        (("id", "openid", "chatter_api"), FAILED),
        ((), NOT_CHECKED),
    ],
)
def test_a_token_needs_a_scope_for_apis(scopes: tuple[str, ...], status: CheckStatus) -> None:
    """`api` or `full` is needed; a login that names no scopes is not judged."""
    line = lines.scopes_finding(session(*scopes))
    assert line.status is status
    assert bool(line.remedy) is (status is FAILED)


@pytest.mark.parametrize(
    ("ahead", "login", "status"),
    [
        (0.4, APP, OK),
        (-29.0, JWT, OK),
        (31.0, APP, WARNING),
        (-31.0, JWT, FAILED),
        (899.0, APP, WARNING),
        (-900.0, APP, FAILED),
        (None, APP, NOT_CHECKED),
    ],
)
def test_a_clock_that_is_off_fails_what_depends_on_it(
    ahead: float | None, login: ClientCredentials | JwtBearer, status: CheckStatus
) -> None:
    """Half a minute matters to JWT bearer, and a quarter of an hour to object stores."""
    line = lines.clock_finding(ahead, "acme", login)
    assert line.status is status
    assert ("NTP" in line.remedy) is (status in (WARNING, FAILED))


def test_an_object_that_is_not_selected_is_a_failure() -> None:
    """The user may subscribe to its topic, and no event ever comes."""
    topic = "/data/AccountChangeEvent"
    assert lines.selection_finding(topic, {"AccountChangeEvent"}).status is OK
    line = lines.selection_finding(topic, {"ContactChangeEvent"})
    assert (line.status, line.checked) == (FAILED, "change data capture /data/AccountChangeEvent")
    assert "Change Data Capture" in line.remedy


def test_a_channel_without_members_is_a_failure() -> None:
    """Of the standard channel, and of a custom one."""
    for line in (
        lines.all_changes_finding("/data/ChangeEvents", ()),
        lines.channel_finding("/event/Own__chn", (), ()),
    ):
        assert line.status is FAILED
        assert line.remedy


def test_a_channel_shows_filters_and_members_that_are_closed() -> None:
    """Members that the user may not read are left out silently by the bus: a warning."""
    filtered = EventChannelMember(channel="Own__chn", event="A__e", enriched=("B",), filter="C = 1")
    line = lines.channel_finding("/event/Own__chn", [filtered], ())
    assert line.status is OK
    assert line.seen == "The channel has 1 member: A__e only where C = 1 always with B."
    closed = lines.channel_finding("/event/Own__chn", [filtered], ["A__e"])
    assert (closed.status, "subscribe to A__e" in closed.seen) == (WARNING, True)


def test_long_channels_are_cut() -> None:
    """A line has twenty members at most, and the number of the others."""
    line = lines.all_changes_finding("/data/ChangeEvents", [f"E{one:02}" for one in range(25)])
    assert line.seen.startswith("The channel has 25 members: E00; ")
    assert line.seen.endswith("E19 and 5 more.")


def of_deliveries(left: int, most: int = 1000) -> dict[str, Allowance]:
    return {DELIVERIES: Allowance(name=DELIVERIES, most=most, left=left)}


@pytest.mark.parametrize(
    ("found", "status"),
    [
        (of_deliveries(1000), OK),
        (of_deliveries(100), OK),
        (of_deliveries(99), WARNING),
        (of_deliveries(0), FAILED),
        ({}, WARNING),
    ],
)
def test_the_allowance_of_deliveries(found: dict[str, Allowance], status: CheckStatus) -> None:
    """None left is a failure, and less than a tenth a warning."""
    line = lines.allowance_finding(found, ["/event/A__e"])
    assert line.status is status
    assert bool(line.remedy) is (status is not OK)


def test_topics_that_are_not_counted_need_no_allowance() -> None:
    """Streams of event monitoring are exempt, unless another topic is read, too."""
    stream = "/event/LoginEventStream"
    assert lines.allowance_finding(of_deliveries(0), [stream]).status is OK
    assert lines.allowance_finding(of_deliveries(0), [stream, "/event/A__e"]).status is FAILED


def test_the_time_until_the_allowance_is_empty() -> None:
    """It follows from the rate of the last three whole hours; without own events it is not told."""
    busy = (*(0,) * 21, 100, 100, 100, 7)
    seen = lines.allowance_finding(of_deliveries(550), ["/event/A__e"], busy).seen
    assert "landed 307 events in that time" in seen
    assert "(100 an hour), and with other subscribers as before, it is used up in 5.5 h." in seen
    quiet = lines.allowance_finding(of_deliveries(550), ["/event/A__e"], (0,) * 25).seen
    assert quiet.endswith("of 24 hours).")


def test_topics_that_no_position_follows() -> None:
    """A channel covers its event types, and the other way round."""

    def topic(name: str, *members: str) -> OfferedTopic:
        return OfferedTopic(topic=name, kind=kind_of(name), members=members)

    changes = topic("/data/ChangeEvents", "AccountChangeEvent")
    offered = [
        topic("/event/A__e"),
        topic("/event/B__e"),
        topic("/data/AccountChangeEvent"),
        topic("/event/Both__chn", "A__e", "B__e"),
        topic("/event/Empty__chn"),
        changes,
    ]
    left = lines.unfollowed_finding(offered, ["/event/A__e", changes.topic], "")
    assert left.seen == "No position follows 2 topics: /event/B__e; /event/Both__chn."
    done = lines.unfollowed_finding(offered, ["/event/Both__chn", changes.topic], "No set-up.")
    assert (done.status, done.seen) == (OK, "Each one has a position. No set-up.")


def test_topics_of_another_org_are_not_checked() -> None:
    """The line names both orgs; without a login it names the login."""
    line = lines.other_org("/event/A__e", "00D2", "00D1")
    assert line.status is NOT_CHECKED
    assert "00D2" in line.seen
    assert "00D1" in line.seen
    assert "`login` has failed" in lines.other_org("/event/A__e", "00D2", "").seen
