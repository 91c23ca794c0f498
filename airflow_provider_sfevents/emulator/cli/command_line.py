"""Arguments of the command line: commands and options."""

from __future__ import annotations

import argparse
from dataclasses import fields
from difflib import get_close_matches
from types import NoneType
from typing import Any, get_args, get_type_hints

from airflow_provider_sfevents.emulator.airflow_connection import AUTHS
from airflow_provider_sfevents.emulator.cli import fault_commands, managed_commands
from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.knobs import Knobs


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="sfevents-emulator",
        description="A stand-in for Salesforce's Pub/Sub API and its logins.",
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument(
        "--url",
        help="My Domain URL of a running emulator, with its token in SFEVENTS_EMULATOR_TOKEN; "
        "found by its state file otherwise",
    )
    where.add_argument("--ca-file", default="", help="certificate to trust, with --url and TLS")
    where.add_argument("--folder", help="folder of the running emulator")
    where.add_argument("--state", help="state file of the running emulator")
    _start(commands.add_parser("start", help="run an emulator until it is interrupted"))
    _publish(commands.add_parser("publish", parents=[where], help="publish platform events"))
    _change(
        commands.add_parser(
            "change", parents=[where], help="change records, or publish a change event of one"
        )
    )
    _define(
        commands.add_parser(
            "define", parents=[where], help="define an event, entity, object or channel"
        )
    )
    look = commands.add_parser(
        "look", parents=[where], help="list topics, or the events of one, decoded"
    )
    look.add_argument("topic", nargs="?")
    look.add_argument(
        "--last", type=int, default=10, metavar="N", help="how many events (default 10)"
    )
    records = commands.add_parser("records", parents=[where], help="list an object's records")
    records.add_argument("entity", help="for example Account")
    records.add_argument("--deleted", action="store_true", help="those in the recycle bin")
    convert = commands.add_parser(
        "convert", parents=[where], help="change a field's type, which removes its values"
    )
    convert.add_argument("entity", help="such as Employee__c")
    convert.add_argument("field")
    convert.add_argument("type", help="such as Text")
    convert.add_argument(
        "--gap", action="store_true", help="publish a gap event instead of an update"
    )
    connection = commands.add_parser(
        "connection", parents=[where], help="print an Airflow connection as JSON"
    )
    connection.add_argument("--auth", choices=AUTHS, default=AUTHS[0])
    managed_commands.add(commands, where)
    fault_commands.add(commands, where)
    return top


def _start(command: argparse.ArgumentParser) -> None:
    command.add_argument("--folder", help="keep events, schemas, orgs and ports here")
    command.add_argument("--grpc-port", type=int, default=0, metavar="N", help="0: a free one")
    command.add_argument(
        "--http-port", type=int, default=0, metavar="N", help="of the org's My Domain"
    )
    command.add_argument("--login-port", type=int, default=0, metavar="N", help="of the login host")
    command.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)"
    )
    command.add_argument(
        "--tls", action="store_true", help="serve over TLS with an authority of its own"
    )
    command.add_argument("--sample", action="store_true", help="begin with a realistic org")
    command.add_argument("--state", help="file for the address and token of the emulator")
    command.add_argument(
        "--keepalive", type=float, metavar="SECONDS", help="silence before a keepalive"
    )
    command.add_argument(
        "--knob",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="any other knob, see docs/reference/emulator.md",
    )


def _publish(command: argparse.ArgumentParser) -> None:
    command.add_argument("topic", nargs="?", help="such as /event/Order__e")
    command.add_argument("json", nargs="?", help="an event, or a list of events")
    command.add_argument(
        "--file", metavar="PATH", help="JSON lines, one event each; - for standard input"
    )
    command.add_argument(
        "--raw", metavar="HEX", help="a payload, published unchanged, decodable or not"
    )
    command.add_argument(
        "--schema-id", default="", help="with --raw: instead of the topic's newest"
    )
    command.add_argument(
        "--id",
        action="append",
        metavar="ID",
        help="event id, once for each event; the same one again is a publisher's retry",
    )
    command.add_argument(
        "--sample", type=int, metavar="N", help="publish N plausible events instead"
    )
    command.add_argument("--seed", type=int, help="with --sample: the same events each time")


def _change(command: argparse.ArgumentParser) -> None:
    command.add_argument("entity", help="for example Account")
    command.add_argument("type", help="CREATE, UPDATE, DELETE, UNDELETE, GAP_UPDATE ...")
    command.add_argument(
        "--record",
        action="append",
        default=[],
        metavar="ID",
        help="once for each record; none for CREATE to make one",
    )
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="value as JSON or as text; BillingAddress.City=Porto for a compound's member; "
        "null for no value",
    )


def _define(command: argparse.ArgumentParser) -> None:
    command.add_argument("kind", choices=("event", "entity", "object", "channel"))
    command.add_argument("name", help="Order__e, Account, /event/Sales__chn")
    command.add_argument(
        "parts", nargs="*", metavar="FIELD=TYPE", help="fields; of a channel the topics it carries"
    )


def knobs(settings: list[str], keepalive: float | None) -> Knobs:
    """Knobs as set on the command line.

    :raises EmulatorError: unknown knob, or a value that does not fit it.
    """
    values: dict[str, Any] = {} if keepalive is None else {"keepalive_seconds": keepalive}
    known = {field.name: field.default for field in fields(Knobs)}
    kinds = get_type_hints(Knobs)
    for setting in settings:
        name, _, text = setting.partition("=")
        if name not in known:
            near = get_close_matches(name, known)
            raise EmulatorError(
                f"--knob {setting!r}: no knob {name!r}; "
                + (f"is it {' or '.join(near)}?" if near else f"there are {', '.join(known)}")
            )
        try:
            has_none = NoneType in get_args(kinds[name])
            values[name] = None if has_none and text == "None" else _value(text, known[name])
        except ValueError as error:
            raise EmulatorError(
                f"--knob {setting!r}: {text!r} is not a value like {known[name]!r}"
            ) from error
    try:
        return Knobs(**values)
    except ValueError as error:
        raise EmulatorError(str(error)) from error


def _value(text: str, default: Any) -> Any:
    """Parse a knob's value by the type of its default; `1-16` is a range."""
    match default:
        case bool():
            return (
                {"true": True, "false": False}[text.lower()]
                if text.lower() in {"true", "false"}
                else int(text) > 0
            )
        case tuple():
            return _range(text) if default else tuple(_pair(part) for part in text.split(","))
        case None:
            return float(text) if "." in text else int(text)
        case int():
            return int(text)
        case float():
            return float(text)
    return text


def _range(text: str) -> int | tuple[int, int]:
    least, dash, most = text.partition("-")
    return (int(least), int(most)) if dash else int(least)


def _pair(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        raise ValueError(text)
    return name, value
