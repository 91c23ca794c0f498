"""Commands against a running emulator, and their output."""

from __future__ import annotations

import json
import os
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator.cli import fault_commands, managed_commands
from airflow_provider_sfevents.emulator.cli.remote import (
    TOKEN_VARIABLE,
    EmulatorAddress,
    Remote,
    state_file,
)
from airflow_provider_sfevents.emulator.errors import EmulatorError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

_CHUNK = 500


def run(args: argparse.Namespace) -> Iterator[str]:
    """Run one command and yield its lines of output.

    :raises EmulatorError: the command failed; the message has the reason.
    """
    commands = {
        "publish": _publish,
        "change": _change,
        "records": _records,
        "convert": _convert,
        "define": _define,
        "look": _look,
        "connection": _connection,
        "managed": managed_commands.run,
    }
    command = commands.get(args.command, fault_commands.run)
    return command(args, _remote(args))


def _remote(args: argparse.Namespace) -> Remote:
    if args.url:
        return Remote(args.url, args.ca_file, os.environ.get(TOKEN_VARIABLE, ""))
    where = EmulatorAddress.read(Path(args.state) if args.state else state_file(args.folder))
    return Remote(where.url, args.ca_file or where.ca_file, where.token)


def _publish(args: argparse.Namespace, remote: Remote) -> Iterator[str]:
    if args.sample is not None:
        published = remote.post("sample", count=args.sample, seed=args.seed)["published"]
        yield from (f"{topic}: {count} published" for topic, count in sorted(published.items()))
        return
    if not args.topic:
        raise EmulatorError("publish needs a topic, or --sample N")
    if [args.json, args.file, args.raw].count(None) != 2:
        raise EmulatorError(
            "publish needs one of an event as JSON, --file with JSON lines, --raw with a payload"
        )
    if args.id and args.file is not None:
        raise EmulatorError("--id is for an event as JSON or --raw, not for --file")
    ids = {"ids": args.id} if args.id else {}
    if args.raw is not None:
        asked = {"raw": [args.raw], "schema_id": args.schema_id, **ids}
        [replay_id] = remote.post("events", topic=args.topic, **asked)["replay_ids"]
        yield f"{args.topic}: 1 published, last replay id {replay_id}"
        return
    last = "none"
    count = 0
    source = iter(_events(args))
    while events := list(islice(source, _CHUNK)):
        replay_ids = remote.post("events", topic=args.topic, events=events, **ids)["replay_ids"]
        count += len(replay_ids)
        last = replay_ids[-1]
    yield f"{args.topic}: {count} published, last replay id {last}"


def _events(args: argparse.Namespace) -> Iterable[Any]:
    if args.file is not None:
        return _lines(args.file)
    value = _json(args.json, "the event")
    return value if isinstance(value, list) else [value]


def _lines(path: str) -> Iterator[Any]:
    try:
        with sys.stdin if path == "-" else Path(path).open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _json(line, f"line {number} of {path}")
    except OSError as error:
        raise EmulatorError(f"--file {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise EmulatorError(f"--file {path} is not UTF-8: {error.reason}") from error


def _json(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise EmulatorError(f"{what} is not JSON: {error}") from error


def _change(args: argparse.Namespace, remote: Remote) -> Iterator[str]:
    asked = {"entity": args.entity, "change_type": args.type.upper(), "record_ids": args.record}
    done = remote.post("changes", **asked, fields=_fields(args.set))
    whose = ", ".join(done["record_ids"]) or "no record"
    last = done["replay_ids"][-1] if done["replay_ids"] else "none"
    yield f"{args.entity}: {args.type.upper()} of {whose} published, replay id {last}"


def _records(args: argparse.Namespace, remote: Remote) -> Iterator[str]:
    found = remote.get("records", entity=args.entity, deleted=args.deleted)["records"]
    for record in found:
        record.pop("attributes")
        valued = {name: value for name, value in record.items() if value is not None}
        yield json.dumps(valued, ensure_ascii=False)


def _convert(args: argparse.Namespace, remote: Remote) -> Iterator[str]:
    asked = {"entity": args.entity, "field": args.field, "type": args.type}
    remote.post("conversions", **asked, gap=args.gap)
    yield f"{args.entity}.{args.field} is {args.type} now, and empty"


def _fields(settings: list[str]) -> dict[str, Any]:
    """Parse field values; members of one compound are grouped."""
    values: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise EmulatorError(f"--set {setting!r} is not FIELD=VALUE")
        parent, dot, member = name.partition(".")
        if dot:
            values.setdefault(parent, {})[member] = _lenient(text)
        else:
            values[name] = _lenient(text)
    return values


def _lenient(text: str) -> Any:
    """Parse null, "text", [...] and {...} as JSON; keep everything else as text.

    The field's type parses that text: 0123 is a phone number.
    """
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return text if isinstance(value, int | float) else value


def _define(args: argparse.Namespace, remote: Remote) -> Iterator[str]:
    if args.kind == "channel":
        made = remote.post("definitions", kind="channel", name=args.name, members=args.parts)
        yield f"{made['topic']} defined"
        return
    pairs = [part.partition("=") for part in args.parts]
    if wrong := [name for name, equals, _ in pairs if not equals]:
        raise EmulatorError(f"{wrong[0]!r} is not FIELD=TYPE")
    fields = {name: kind for name, _, kind in pairs}
    made = remote.post("definitions", kind=args.kind, name=args.name, fields=fields)
    yield f"{made['topic']} defined"


def _look(args: argparse.Namespace, remote: Remote) -> Iterator[str]:
    if args.topic:
        found = remote.get("events", topic=args.topic, last=args.last)["events"]
        yield from (json.dumps(event, ensure_ascii=False) for event in found)
        return
    seen = remote.get("topics")
    rows = [("topic", "retained", "delivered", "subscribers", "schema")]
    rows += [
        (
            one["topic"],
            one["retained"],
            one["delivered"],
            one["subscribers"],
            one["schema_id"] or "-",
        )
        for one in seen["topics"]
    ]
    yield f"org {seen['org_id']}"
    yield from _table(rows)
    if seen["subscriptions"]:
        yield ""
        rows = [("subscription", "topic", "start", "delivered", "ended")]
        rows += [
            (one["number"], one["topic"], one["start"], one["delivered"], one["ended"] or "open")
            for one in seen["subscriptions"]
        ]
        yield from _table(rows)


def _table(rows: list[tuple[Any, ...]]) -> Iterator[str]:
    widths = [max(len(str(value)) for value in column) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(
            str(value).ljust(width) for value, width in zip(row, widths, strict=True)
        ).rstrip()


def _connection(args: argparse.Namespace, remote: Remote) -> Iterator[str]:
    yield json.dumps(remote.get("connection", auth=args.auth))
