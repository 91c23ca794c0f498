"""Setup over the Tooling API: managed subscriptions, channels and their members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.changing import decoded

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator import Emulator
    from tests.contract.orgs import OrgUnderTest

MANAGED, CHANNEL, MEMBER = (
    f"tooling/sobjects/{name}"
    for name in ("ManagedEventSubscription", "PlatformEventChannel", "PlatformEventChannelMember")
)
LEFT_BEHIND = "it would be left behind in the org's setup"


@pytest.fixture
def emulator(org: OrgUnderTest) -> Emulator:
    return org.staged(LEFT_BEHIND)


def _made(org: OrgUnderTest, kind: str, name: str, **metadata: Any) -> Any:
    return org.rest("POST", kind, {"FullName": name, "Metadata": metadata})


# --- managed subscriptions ------------------------------------------------------------------------


@pytest.mark.usefixtures("emulator")
def test_a_managed_subscription_is_latest_unless_set_otherwise(org: OrgUnderTest) -> None:
    """Both replays of a managed subscription default to LATEST.

    Source: Tooling API guide (ManagedEventSubscription).
    """
    answer = _made(org, MANAGED, "Plain", label="Plain", topicName=org.topic, state="RUN")
    assert answer.status_code == 201
    record = org.rest("GET", f"{MANAGED}/{answer.json()['id']}").json()
    assert record["Id"][:3] == "18x"
    metadata = record["Metadata"]
    assert (metadata["defaultReplay"], metadata["errorRecoveryReplay"]) == ("LATEST", "LATEST")


@pytest.mark.usefixtures("emulator")
@pytest.mark.parametrize("name", ["1st", "Two__In_A_Row", "With Space"])
def test_developer_names_have_rules(org: OrgUnderTest, name: str) -> None:
    """A developer name has a letter first, then letters, digits and single underscores.

    Source: Tooling API guide (ManagedEventSubscription).
    """
    answer = _made(org, MANAGED, name, label="X", topicName=org.topic, state="RUN")
    assert answer.status_code == 400


def test_the_topic_of_a_managed_subscription_is_fixed(
    org: OrgUnderTest, emulator: Emulator
) -> None:
    """A change of the topic is refused. Source: Tooling API guide (ManagedEventSubscription)."""
    topic = emulator.define_event("Elsewhere__e", {})
    made = _made(org, MANAGED, "Fixed", label="Fixed", topicName=org.topic, state="RUN").json()
    body = {"Metadata": {"topicName": topic}}
    assert org.rest("PATCH", f"{MANAGED}/{made['id']}", body).status_code == 400


@pytest.mark.usefixtures("emulator")
def test_managed_subscriptions_came_with_version_60(org: OrgUnderTest) -> None:
    """API versions before 60.0 do not have the object.

    Source: Tooling API guide (ManagedEventSubscription).
    """
    url = f"{org.headers['instanceurl']}/services/data/v59.0/{MANAGED}"
    body = {"FullName": "Old", "Metadata": {}}
    assert org.http.post(url, json=body, headers=org.bearer).status_code == 404


def test_an_org_has_200_managed_subscriptions(org: OrgUnderTest) -> None:
    """An org has at most 200 managed subscriptions. Source: Allocations page."""
    with org.set_up("200 would be left behind in its setup", max_managed=2) as other:
        answers = [
            _made(other, MANAGED, f"M{number}", label="M", topicName=other.topic, state="RUN")
            for number in range(2)
        ]
    assert [one.status_code for one in answers] == [201, 400]
    assert "LIMIT_EXCEEDED" in answers[1].text


# --- channels -------------------------------------------------------------------------------------


def test_a_channel_and_its_members_can_be_queried(org: OrgUnderTest) -> None:
    """`X__chn` is the channel `X`, and each member names its event.

    Source: Tooling API guide (PlatformEventChannel).
    """
    channel = org.need("channel").rpartition("/")[2]
    name = channel.removesuffix("__chn")
    [found] = org.query(
        f"SELECT Id, ChannelType FROM PlatformEventChannel WHERE DeveloperName='{name}'"  # noqa: S608
    )
    assert (found["Id"][:3], found["ChannelType"]) == ("0YL", "event")
    members = org.query("SELECT EventChannel, SelectedEntity FROM PlatformEventChannelMember")
    event = org.topic.rpartition("/")[2]
    assert event in {one["SelectedEntity"] for one in members if one["EventChannel"] == channel}


@pytest.fixture(scope="module")
def sales(org: OrgUnderTest) -> str:
    """A channel of leads that are not cold, with their company; created over REST."""
    org.staged(LEFT_BEHIND).define_object("Lead")
    _made(org, CHANNEL, "Leads__chn", channelType="data", label="Leads")
    answer = _made(
        org,
        MEMBER,
        "Leads_Lead",
        eventChannel="Leads__chn",
        selectedEntity="LeadChangeEvent",
        enrichedFields=[{"name": "Company"}, {"name": "Title"}],
        filterExpression="Status != 'Cold'",
    )
    assert answer.status_code == 201, answer.text
    return "/data/Leads__chn"


def test_what_a_channel_adds_and_leaves_out(org: OrgUnderTest, sales: str) -> None:
    """Updates and deletions have enriched and filter fields; filtered events do not come.

    Source: Change Data Capture guide (enrich, filter).
    """
    emulator = org.staged(LEFT_BEHIND)
    base = org.base()
    warm = {"LastName": "Silva", "Company": "Nord", "Status": "Warm"}
    leads = [emulator.create("Lead", {**warm, "Status": status}) for status in ("Warm", "Cold")]
    for lead in leads:
        emulator.update(lead, {"Phone": "555 0100"})
        emulator.delete(lead)
    with org.after(base, 6, topic=sales) as stream:
        created, updated, deleted = (decoded(org, one) for one in stream.take(3))
        assert stream.is_silent(org.times.keepalive / 4)
    assert {one.what[1] for one in (created, updated, deleted)} == {(leads[0],)}
    assert updated.named("changedFields") == {"Phone", "LastModifiedDate"}
    for change in (updated, deleted):
        assert (change.record["Company"], change.record["Status"]) == ("Nord", "Warm")
        assert change.record["Title"] is None
    assert emulator.deliveries(sales) == 3  # what is filtered out is not counted


def test_ten_fields_can_be_enriched(org: OrgUnderTest, emulator: Emulator) -> None:
    """At most ten fields can be enriched. Source: Change Data Capture guide (enrich)."""
    emulator.define_object("Contact")
    _made(org, CHANNEL, "Rich__chn", channelType="data", label="Rich")
    names = ("Phone", "Fax", "MobilePhone", "HomePhone", "ReportsToId", "Email", "Title")
    eleven = [*names, "Department", "LeadSource", "Birthdate", "Description"]
    codes = [
        _made(
            org,
            MEMBER,
            "Rich_Contact",
            eventChannel="Rich__chn",
            selectedEntity="ContactChangeEvent",
            enrichedFields=[{"name": name} for name in chosen],
        ).status_code
        for chosen in (eleven, eleven[:10])
    ]
    assert codes == [400, 201]


# By the filter expressions that Salesforce's own tools accept and refuse.
FILTERS = [
    ("Name LIKE 'N%' AND Industry != 'Wood'", True),
    ("Name IN ('A', 'B') OR (AnnualRevenue >= 5 AND NumberOfEmployees < 3)", True),
    ("BillingAddress.City = 'Porto'", True),
    ("Phone = null", True),
    ("LOWER(Name) = 'nord'", True),
    ("LastModifiedDate = LAST_N_DAYS:7", True),
    ("LastModifiedDate > 2026-01-05T00:00:00Z", False),
    ("WHERE Name = 'A'", False),
    ("ISBLANK(Name)", False),
    ("Name = Phone", False),
    ("Owner.Name = 'x'", False),
    ("IsDeleted = false", False),
    ("BillingAddress = 'Porto'", False),
    ("Industry LIKE 'W%'", False),
]


@pytest.mark.parametrize(("text", "taken"), FILTERS, ids=[row[0] for row in FILTERS])
def test_filters_have_a_grammar(
    org: OrgUnderTest, emulator: Emulator, text: str, taken: bool
) -> None:
    """A filter is a SOQL condition without WHERE, with operators by field type.

    Source: Change Data Capture guide (filter), Salesforce's own tools.
    """
    emulator.define_channel("/data/Filter__chn", ())
    answer = _made(
        org,
        MEMBER,
        "Filter_Account",
        eventChannel="Filter__chn",
        selectedEntity="AccountChangeEvent",
        filterExpression=text,
    )
    assert (answer.status_code == 201) is taken, answer.text
