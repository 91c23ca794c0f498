"""`airflow sfevents topics`: list, describe; and `airflow sfevents tail`."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import json
import sys
from typing import TYPE_CHECKING, Any

from airflow.utils.cli import suppress_logs_and_warning
from airflow.utils.providers_configuration_loader import providers_configuration_loaded

from airflow_provider_sfevents.commands.output import (
    command,
    drop_output,
    is_for_programs,
    say,
    show_rows,
)
from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.hooks.sfevents import SfEventsHook
from airflow_provider_sfevents.pubsub.rest.event_channels import list_topics
from airflow_provider_sfevents.pubsub.topic_names import check_topic, check_transport
from airflow_provider_sfevents.replay_point import ReplayPoint

if TYPE_CHECKING:
    from argparse import Namespace

    from airflow_provider_sfevents.pubsub.rest.offered_topics import OfferedTopic
    from airflow_provider_sfevents.pubsub.topic_description import DescribedTopic


@suppress_logs_and_warning
@providers_configuration_loaded
@command
def list_(args: Namespace) -> None:
    """List the topics and channels that the org offers."""
    found, problem = asyncio.run(_list(args.conn_id, unselected=args.all))
    show_rows([offered_row(one) for one in found], args.output)
    if problem:
        print(problem, file=sys.stderr)  # noqa: T201 - stdout may be read by a program


async def _list(conn_id: str, *, unselected: bool) -> tuple[list[OfferedTopic], str]:
    async with SfEventsHook(conn_id).rest() as rest:
        return await list_topics(rest, unselected=unselected)


@suppress_logs_and_warning
@providers_configuration_loaded
@command
def describe(args: Namespace) -> None:
    """Show one topic with its events."""
    found = SfEventsHook(args.conn_id).describe_topic(args.topic)
    if is_for_programs(args.output):
        show_rows([plain(found)], args.output)
        return
    say(headline(found))
    rows = field_rows(found)
    if rows:
        show_rows(rows, args.output)
    say("\n".join(notes(found)))


@suppress_logs_and_warning
@providers_configuration_loaded
@command
def tail(args: Namespace) -> None:
    """Print events as JSON lines as they come; no position is read or moved."""
    try:
        asyncio.run(_tail(args))
    except KeyboardInterrupt:
        return
    except BrokenPipeError:
        drop_output()


async def _tail(args: Namespace) -> None:
    if args.max_events is not None and args.max_events < 1:
        raise ConfigurationError(f"--max-events is {args.max_events}. Give 1 or more.")
    chosen = {"transport": args.transport} if args.transport else {}
    check_transport(check_topic(args.topic), args.transport)
    start = ReplayPoint.given(args.start).to_text()
    async with SfEventsHook(args.conn_id).client(replay=start, **chosen) as client:
        await client.subscribe(args.topic)
        print(f"Listening to {args.topic}; end with Ctrl+C.", file=sys.stderr)  # noqa: T201
        count = 0
        while args.max_events is None or count < args.max_events:
            message = await client.receive()
            print(json.dumps(message, default=_printable), flush=True)  # noqa: T201
            count += 1


def _printable(value: object) -> str:
    """Return a value that JSON does not have as text; bytes in base64."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def offered_row(one: OfferedTopic) -> dict[str, Any]:
    return {
        "topic": one.topic,
        "kind": one.kind.value,
        "label": one.label,
        "selected": one.selected,
        "members": list(one.members),
    }


def plain(found: DescribedTopic) -> dict[str, Any]:
    """Return a topic in the types of JSON, which are those of YAML without tags, too."""
    whole: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(found)))
    return whole


def headline(found: DescribedTopic) -> str:
    """Describe the topic and the user's permissions on it."""
    may = [
        word
        for word, can in (("subscribe", found.can_subscribe), ("publish", found.can_publish))
        if can
    ]
    counted = "count" if found.counted else "do not count"
    return (
        f"{found.topic}: {found.kind.value}. The connection's user may "
        f"{' and '.join(may) or 'neither subscribe nor publish'}; deliveries {counted} against "
        "the daily allowance."
    )


def field_rows(found: DescribedTopic) -> list[dict[str, Any]]:
    """Return a row for each field of each event."""
    return [
        {
            "event": event.name,
            "field": field.name,
            "type": field.type,
            "salesforce_type": field.salesforce_type,
            "may_be_null": field.nullable,
        }
        for event in found.events
        for field in event.fields
    ]


def notes(found: DescribedTopic) -> list[str]:
    """Return the lines below the table: schema ids, filters, enriched fields, errors."""
    told = [found.problem] if found.problem else []
    for event in found.events:
        if event.problem:
            told.append(f"{event.name}: {event.problem}")
            continue
        parts = [f"{event.name}: schema {event.schema_id}"]
        parts += [f"only where {event.filter}"] if event.filter else []
        parts += [f"always with {', '.join(event.enriched)}"] if event.enriched else []
        told.append("; ".join(parts))
    return told
