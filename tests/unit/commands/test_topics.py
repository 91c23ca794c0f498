"""Output for topics and limits."""

from __future__ import annotations

from airflow_provider_sfevents.commands import limits
from airflow_provider_sfevents.commands.topics import field_rows, headline, notes, plain
from airflow_provider_sfevents.pubsub.rest.org_limits import DELIVERIES, Allowance
from airflow_provider_sfevents.pubsub.topic_description import (
    DescribedTopic,
    EventDescription,
    FieldDescription,
)
from airflow_provider_sfevents.pubsub.topic_names import TopicKind

CITY = FieldDescription(name="City__c", type="string", salesforce_type="Text", nullable=True)
ORDER = EventDescription(
    name="Order__e", schema_id="S1", fields=(CITY,), enriched=("City__c", "Name"), filter="A > 5"
)
SECRET = EventDescription(name="Secret__e", problem="It may not be read.")


def topic(
    *events: EventDescription, publish: bool = True, subscribe: bool = True
) -> DescribedTopic:
    return DescribedTopic(
        topic="/event/Sales__chn",
        kind=TopicKind.EVENT_CHANNEL,
        can_publish=publish,
        can_subscribe=subscribe,
        counted=False,
        events=events,
    )


def test_what_the_user_may_do() -> None:
    """The permissions on a topic are one sentence."""
    assert headline(topic()) == (
        "/event/Sales__chn: channel of platform events. The connection's user may subscribe and "
        "publish; deliveries do not count against the daily allowance."
    )
    assert "may publish;" in headline(topic(subscribe=False))
    assert "may neither subscribe nor publish;" in headline(topic(publish=False, subscribe=False))


def test_fields_and_what_does_not_fit_among_them() -> None:
    """Each field has a row; filters, enriched fields and errors are below the table."""
    assert field_rows(topic(ORDER, SECRET)) == [
        {
            "event": "Order__e",
            "field": "City__c",
            "type": "string",
            "salesforce_type": "Text",
            "may_be_null": True,
        }
    ]
    assert notes(topic(ORDER, SECRET)) == [
        "Order__e: schema S1; only where A > 5; always with City__c, Name",
        "Secret__e: It may not be read.",
    ]


def test_programs_get_plain_values() -> None:
    """Output for programs has plain JSON types at any depth."""
    whole = plain(topic(ORDER))
    assert (type(whole["kind"]), whole["kind"]) == (str, "channel of platform events")
    assert whole["events"][0]["fields"][0]["name"] == "City__c"
    assert type(whole["events"]) is list


def test_limits_of_events_come_first() -> None:
    """Event allowances come first, in the order of use; others on request, by name."""
    names = ("HourlyPublishedPlatformEvents", "DailyApiRequests", "AnalyticsJobs", DELIVERIES)
    found = {name: Allowance(name=name, most=10, left=9) for name in names}
    assert [row["limit"] for row in limits.rows(found, every=False)] == [DELIVERIES, names[0]]
    every = limits.rows(found, every=True)
    assert [row["limit"] for row in every] == [DELIVERIES, names[0], "AnalyticsJobs", names[1]]
    assert (every[0]["most"], every[0]["left"], every[2]["counts"]) == (10, 9, None)
