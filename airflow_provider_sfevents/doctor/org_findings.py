"""Lines on an org: login, scopes, clock, topics, change data capture, channels, allowance. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.doctor.findings import (
    failed,
    not_checked,
    ok,
    split_message,
    warning,
)
from airflow_provider_sfevents.pubsub.auth.oauth_errors import skew_sentence
from airflow_provider_sfevents.pubsub.auth.settings import (
    END_OF_SOAP,
    JwtBearer,
    SessionToken,
    SoapLogin,
)
from airflow_provider_sfevents.pubsub.error_codes import BY_CODE
from airflow_provider_sfevents.pubsub.rest.org_limits import DELIVERIES, hours_until_empty
from airflow_provider_sfevents.pubsub.topic_names import is_exempt, topic_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from airflow_provider_sfevents.doctor.findings import Finding
    from airflow_provider_sfevents.exceptions import ConfigurationError
    from airflow_provider_sfevents.pubsub.auth.session import Session
    from airflow_provider_sfevents.pubsub.auth.settings import Login
    from airflow_provider_sfevents.pubsub.rest.offered_topics import (
        EventChannelMember,
        OfferedTopic,
    )
    from airflow_provider_sfevents.pubsub.rest.org_limits import Allowance

CONNECTION, CLOCK, LOGIN, SCOPES = "connection", "clock", "login", "scopes"
API, ALLOWANCE, UNFOLLOWED = "event API", "allowance", "topics without a position"

OF_WORKER = ("versions", "executor", "staging", "Spark", "triggerer")
"""Checks that need another machine."""

ELSEWHERE = ("permissions on topics", "change data capture", "channels", *OF_WORKER)
"""Checks that need more than the connection, or another machine."""

ENOUGH_SCOPES = frozenset({"api", "full"})
"""Scopes of which one lets a token use the APIs.

Salesforce help, "OAuth Tokens and Scopes": `api` gives access by APIs, `full` includes it.
"""

GRAVE_SKEW_SECONDS = 900
"""Clock skew from which object stores refuse requests.

Amazon S3, "Error responses": RequestTimeTooSkewed, beyond 15 minutes."""

LOW_SHARE = 0.1
"""Share of the allowance below which there is a warning."""

_READ_SETUP = "Give the user the permission View Setup and Configuration."


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """Topics of an org that positions follow.

    :param events_by_hour: events that they landed in each of the last 25 hours, the current one
        last; only of topics whose deliveries count against `DELIVERIES`. Empty: not known.
    """

    topics: tuple[str, ...] = ()
    events_by_hour: tuple[int, ...] = ()


def topic_check(topic: str) -> str:
    return f"topic {topic}"


def selection_check(topic: str) -> str:
    return f"change data capture {topic}"


def channel_check(topic: str) -> str:
    return f"channel {topic}"


def login_finding(session: Session, login: Login) -> Finding:
    """Return the line of a login that succeeded."""
    if isinstance(login, SessionToken):
        return ok(
            LOGIN,
            f"The session token is for org {session.org_id} at {session.instance_url}; it cannot "
            "be renewed here.",
        )
    user = f" as user {session.user_id}" if session.user_id else ""
    seen = f"Logged in to org {session.org_id} at {session.instance_url}{user}."
    return warning(LOGIN, seen, END_OF_SOAP) if isinstance(login, SoapLogin) else ok(LOGIN, seen)


def scopes_finding(session: Session) -> Finding:
    """Return the line of the scopes that a login grants."""
    if not session.scopes:
        return not_checked(SCOPES, "The answer to the login names no scopes.")
    named = ", ".join(sorted(session.scopes))
    if session.scopes & ENOUGH_SCOPES:
        return ok(SCOPES, f"The login grants {named}.")
    return failed(
        SCOPES,
        f"The login grants {named}, and no access by APIs.",
        "Add the scope `api` (Manage user data via APIs) to the app's OAuth settings, and log in "
        "again; a refresh token has to be granted anew.",
    )


def clock_finding(ahead: float | None, host: str, login: Login) -> Finding:
    """Return the finding on this machine's clock.

    :param ahead: seconds ahead of the host's clock; None: the answer has no time.
    """
    if ahead is None:
        return not_checked(CLOCK, f"{host} answered without a time (header Date).")
    said = skew_sentence(ahead)
    if not said:
        return ok(CLOCK, f"This machine's clock agrees with that of {host}, within half a minute.")
    remedy = (
        "Set it by NTP. Logins by JWT bearer are refused at some minutes, object stores refuse "
        "requests at 15 minutes, and the ages of positions are wrong."
    )
    is_grave = isinstance(login, JwtBearer) or abs(ahead) >= GRAVE_SKEW_SECONDS
    return (failed if is_grave else warning)(CLOCK, said, remedy)


def selection_finding(topic: str, selected: Collection[str]) -> Finding:
    """Return the line of a topic of change events.

    :param selected: names of the change events that the org sends.
    """
    checked, event = selection_check(topic), topic.rpartition("/")[2]
    if event in selected:
        return ok(checked, f"The org sends {event}: its object is selected.")
    return failed(
        checked,
        f"The org sends no {event}: its object is not selected.",
        "Select the object in the org's Setup, Change Data Capture. Changes before that are on no "
        "topic: read the records by an entity snapshot.",
    )


def all_changes_finding(topic: str, selected: Collection[str]) -> Finding:
    """Return the line of the channel of all selected objects."""
    if not selected:
        return failed(
            channel_check(topic),
            "The channel has no members: no object is selected.",
            "Select objects in the org's Setup, Change Data Capture.",
        )
    return ok(channel_check(topic), f"The channel has {_listed(sorted(selected), 'member')}.")


def channel_finding(
    topic: str, members: Sequence[EventChannelMember], unreadable: Collection[str]
) -> Finding:
    """Return the line of a custom channel.

    :param unreadable: names of members that the user may not subscribe to.
    """
    checked = channel_check(topic)
    if not members:
        return failed(
            checked,
            "The channel has no members, so no event comes.",
            "Add members to the channel (PlatformEventChannelMember).",
        )
    seen = f"The channel has {_listed([_member(one) for one in members], 'member')}."
    if unreadable:
        return warning(
            checked,
            f"{seen} The user may not subscribe to {', '.join(sorted(unreadable))}.",
            "Grant read permission on them; for change events View All Data, or View All on the "
            "object.",
        )
    return ok(checked, seen)


def _member(one: EventChannelMember) -> str:
    parts = [one.event]
    parts += [f"only where {one.filter}"] if one.filter else []
    parts += [f"always with {', '.join(one.enriched)}"] if one.enriched else []
    return " ".join(parts)


def _listed(names: Sequence[str], what: str, most: int = 20) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{counted(len(names), what)}: {'; '.join(names[:most])}{more}"


def unfollowed_finding(
    offered: Sequence[OfferedTopic], followed: Collection[str], problem: str
) -> Finding:
    """Return the line of the org's topics that no position follows.

    An event type counts as followed with a channel that has it, and a channel with its event types.

    :param problem: the reason why channels are not among them; empty if they are.
    """
    members = {one.topic: {topic_of(event) for event in one.members} for one in offered}
    covered = set(followed).union(*(members.get(topic, set()) for topic in followed))
    left = [
        one.topic
        for one in offered
        if one.topic not in covered and (not one.is_channel or members[one.topic] - covered)
    ]
    said = f"No position follows {_listed(left, 'topic')}." if left else "Each one has a position."
    return ok(UNFOLLOWED, f"{said} {problem}".strip())


def other_org(topic: str, org_id: str, own: str) -> Finding:
    """Return the line of a topic that is followed in another org than the connection's.

    :param own: org of the connection; empty: the login has failed.
    """
    to = f"the connection leads to org {own}" if own else f"`{LOGIN}` has failed"
    return not_checked(
        topic_check(topic),
        f"A position of org {org_id} follows it, and {to}.",
        "Run the doctor by a connection to that org." if own else "",
    )


def unread_setup(checked: str, why: str) -> Finding:
    """Return the line of a check for which the user may not read the org's setup."""
    return not_checked(checked, why, _READ_SETUP)


def unread_limits(error: ConfigurationError) -> Finding:
    """Return the line of an allowance that the user may not read."""
    seen, remedy = split_message(str(error))
    return warning(ALLOWANCE, seen, f"{remedy} {_READ_SETUP}".strip())


def allowance_finding(
    found: Mapping[str, Allowance], topics: Sequence[str], by_hour: Sequence[int] = ()
) -> Finding:
    """Return the line of the org's deliveries of 24 hours.

    :param found: the org's allowances, by name.
    :param topics: topics in use; empty: not known.
    :param by_hour: as `Followed.events_by_hour`.
    """
    if topics and all(is_exempt(topic) for topic in topics):
        return ok(ALLOWANCE, "Deliveries on these topics are not counted.")
    left = found.get(DELIVERIES)
    if left is None:
        return warning(ALLOWANCE, f"The org's limits lack {DELIVERIES}.", _READ_SETUP)
    most = counted(left.most, "delivery", "deliveries")
    seen = f"The org has {left.left} of {most} left ({DELIVERIES}, of 24 hours)."
    seen += _outlook(left, by_hour)
    if left.left <= 0:
        return failed(ALLOWANCE, seen, BY_CODE["subscription.limit.exceeded"].remedy)
    if left.left < LOW_SHARE * left.most:
        return warning(
            ALLOWANCE,
            seen,
            "Find out which subscribers take them, and set `min_allowance` on tasks that can wait.",
        )
    return ok(ALLOWANCE, seen)


def _outlook(left: Allowance, by_hour: Sequence[int]) -> str:
    """Say when the allowance is used up, if the positions go on as in the last three hours."""
    if not any(by_hour) or left.left <= 0:
        return ""
    rate = sum(by_hour[-4:-1]) / 3
    hours = hours_until_empty(left.left, by_hour[-25:-1], rate)
    when = "is not used up" if hours is None else f"is used up in {hours:.1f} h"
    landed = counted(sum(by_hour[-24:]), "event")
    return (
        f" Positions of this Airflow landed {landed} in that time. At their rate of "
        f"the last 3 hours ({rate:.0f} an hour), and with other subscribers as before, it {when}."
    )
