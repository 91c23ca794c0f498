"""Filters of PushTopic subscriptions: `/topic/X?Industry='Energy'&Name=Acme`. Pure.

Rules, from the Streaming API Developer Guide, "Filtered Subscriptions":
1. Conditions are joined by `&`, and an event matches if any condition is true.
2. Each field is in the PushTopic's query.
3. A value may be in single quotes; ids have 18 characters.
Values are compared as text; the handling of case in live orgs is not known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator.cometd.message_parsing import MessageRefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PREFIX = "/topic/"


@dataclass(frozen=True, slots=True)
class TopicFilter:
    """Conditions of a filtered subscription: pairs of a field and the text of its value."""

    conditions: tuple[tuple[str, str], ...]

    def matches(self, values: Mapping[str, Any]) -> bool:
        """True if a condition is true for these values by field name."""
        held = {name.lower(): as_text(value) for name, value in values.items()}
        return any(held.get(name.lower()) == value for name, value in self.conditions)


def without_filter(subscription: str) -> tuple[str, str]:
    """Channel of a subscription, and its filter; empty without one."""
    if not subscription.startswith(_PREFIX):
        return subscription, ""
    channel, _, text = subscription.partition("?")
    return channel, text


def parse(text: str, fields: Sequence[str]) -> TopicFilter:
    """Parse a filter.

    :param fields: fields in the PushTopic's query.
    :raises MessageRefusedError: a field is not in the query.
    """
    pairs = [one.partition("=") for one in text.split("&")]
    conditions = tuple((name.strip(), _unquoted(value.strip())) for name, _, value in pairs)
    known = {name.lower() for name in fields}
    if wrong := [name for name, _ in conditions if name.lower() not in known]:
        raise MessageRefusedError(
            f"400::Query fields {{{', '.join(wrong)}}} do not exist on the topic entity"
        )
    return TopicFilter(conditions)


def as_text(value: Any) -> str:
    """Value of a message as a filter writes it."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case float() if value.is_integer():
            return str(int(value))
    return str(value)


def _unquoted(value: str) -> str:
    quoted = len(value) > 1 and value.startswith("'") and value.endswith("'")
    return value[1:-1] if quoted else value
