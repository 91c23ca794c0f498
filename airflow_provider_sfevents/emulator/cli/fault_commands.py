"""Commands for faults: their arguments, and their requests to a running emulator."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.faults.fault_orders import OVER_COMETD, TARGETS
from airflow_provider_sfevents.emulator.faults.http2_frames import HOWS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from airflow_provider_sfevents.emulator.cli.remote import Remote

_UNITS = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?[dhms])+")
_OLD_IDS = ("refused", "behind", "ahead")


def add(commands: Any, where: argparse.ArgumentParser) -> None:
    """Add the commands to the parser.

    :param where: parser of the options that select the emulator.
    """

    def command(name: str, does: str) -> argparse.ArgumentParser:
        made: argparse.ArgumentParser = commands.add_parser(name, parents=[where], help=does)
        return made

    _fault(commands.add_parser("fault", help="order failures of calls, list or clear them"), where)
    _clock(commands.add_parser("clock", help="show the emulator's clock, or move it on"), where)
    drop = command("drop", "cut everything open on the gRPC port, now")
    drop.add_argument("how", nargs="?", choices=(*HOWS, "end"), default="reset")
    _seconds(command("freeze", "pass no byte, with every socket open"), "until thaw")
    command("thaw", "end a freeze")
    _seconds(command("away", "reset all connections and refuse new ones"), "until back")
    command("back", "end away")
    _seconds(command("restart", "GOAWAY, connections refused, service again"), "0")
    _trickle(command("trickle", "slow down responses"))
    _count(command("repeat", "deliver each of the next N events twice"))
    _count(command("reorder", "deliver the next N events in reverse order"))
    _count(command("resend", "start the next stream after a replay id N events earlier"))
    keepalives = command("keepalives", "stop or resume keepalives")
    keepalives.add_argument("what", choices=("pause", "resume"))
    expire = command("expire-tokens", "make every token given out so far invalid")
    group = expire.add_mutually_exclusive_group()
    group.add_argument("--in-stream", action="store_true", default=None, help="end running streams")
    group.add_argument(
        "--not-in-stream", dest="in_stream", action="store_false", help="keep running streams open"
    )
    command("revoke", "make an access or refresh token invalid").add_argument("token")
    command("lock-out", "refuse a user's password logins").add_argument("username")
    command("unlock", "end lock-out").add_argument("username")
    reset = command("reset-replay-ids", "give every event on the bus another replay id")
    reset.add_argument(
        "--old-ids", choices=_OLD_IDS, default="refused", help="what old ids are then"
    )
    command("forget-schema", "make GetSchema refuse a schema").add_argument("schema_id")


def _fault(command: argparse.ArgumentParser, where: argparse.ArgumentParser) -> None:
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
    order = actions.add_parser("order", parents=[where], help="make the next calls fail")
    order.add_argument("rpc", choices=TARGETS, metavar="RPC", help=", ".join(TARGETS))
    order.add_argument(
        "--error-code", default="", metavar="CODE", help="such as service.auth.error"
    )
    order.add_argument(
        "--status",
        default="",
        help="gRPC status; alone it is an error of the transport, OK the polite end of a stream",
    )
    order.add_argument("--message", default="", help="instead of the usual text")
    order.add_argument(
        "--how",
        choices=sorted({*HOWS, *OVER_COMETD}),
        default="",
        help="cut the connection instead; of cometd: reset, hold or cookies",
    )
    order.add_argument(
        "--times", type=int, default=1, metavar="N", help="so many calls (default 1)"
    )
    order.add_argument(
        "--after",
        type=int,
        default=0,
        metavar="N",
        help="events delivered, or calls answered, before",
    )
    order.add_argument("--after-seconds", type=float, metavar="S", help="since the call began")
    order.add_argument(
        "--late", action="store_true", help="events are published, and only the answer is lost"
    )
    actions.add_parser("list", parents=[where], help="what was ordered and has not come")
    clear = actions.add_parser("clear", parents=[where], help="forget it, and mend the network")
    clear.add_argument("rpc", nargs="?", choices=TARGETS, metavar="RPC", help="only this RPC's")


def _clock(command: argparse.ArgumentParser, where: argparse.ArgumentParser) -> None:
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("show", parents=[where], help="print its time")
    advance = actions.add_parser("advance", parents=[where], help="move it on")
    advance.add_argument("by", help="such as 72h, 3d, 90m, 1d12h")


def _seconds(command: argparse.ArgumentParser, default: str) -> None:
    command.add_argument("seconds", nargs="?", type=float, help=f"for so long (default: {default})")


def _count(command: argparse.ArgumentParser) -> None:
    command.add_argument("events", type=int, metavar="N")


def _trickle(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "bytes_per_second", type=int, metavar="BYTES", help="a second; 0: full speed"
    )
    command.add_argument("--rpc", default="", help="only on connections that carry this RPC")


def run(args: argparse.Namespace, remote: Remote) -> Iterator[str]:
    """Run one of these commands and yield its lines of output."""
    if args.command == "fault":
        yield from _faults(args, remote)
    elif args.command == "clock":
        yield _time(args, remote)
    else:
        verb, values = _verb(args)
        remote.post(f"faults/{verb}", **values)
        yield f"{args.command}: done"


def _faults(args: argparse.Namespace, remote: Remote) -> Iterator[str]:
    if args.action == "order":
        names = (
            *("rpc", "error_code", "status", "message", "how"),
            *("times", "after", "after_seconds", "late"),
        )
        remote.post("faults/fail_next", **{name: getattr(args, name) for name in names})
        yield f"{args.rpc}: ordered"
    elif args.action == "clear":
        remote.post("faults/clear_faults", rpc=args.rpc or "")
        yield f"{args.rpc}: cleared" if args.rpc else "cleared"
    else:
        faults = remote.get("faults")["faults"]
        yield from (_line(fault) for fault in faults)
        if not faults:
            yield "nothing is ordered"


def _line(fault: dict[str, Any]) -> str:
    """Describe one fault: `Subscribe UNAVAILABLE service.unavailable, 3 times, after 20`."""
    what = " ".join(fault[name] for name in ("rpc", "how", "status", "error_code") if fault[name])
    more = [f"{fault['times']} times"] * (fault["times"] > 1)
    more += [f"after {fault['after']}"] * (fault["after"] > 0)
    more += [f"after {fault['after_seconds']} s"] * (fault["after_seconds"] is not None)
    more += ["late"] * fault["late"]
    return ", ".join((what, *more))


def _time(args: argparse.Namespace, remote: Remote) -> str:
    if args.action == "advance":
        reply = remote.post("clock", seconds=_duration(args.by))
    else:
        reply = remote.get("clock")
    return f"{reply['now']}, {reply['ahead_seconds']} s ahead"


def _duration(text: str) -> float:
    if not _DURATION.fullmatch(text):
        raise EmulatorError(
            f"clock advance: {text!r} is not a duration; write 72h, 3d, 90m or 1d12h"
        )
    parts = re.findall(r"([\d.]+)([dhms])", text)
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _verb(args: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """Admin verb of a command, and its arguments."""
    verbs = {
        "drop": ("drop_connections", ("how",)),
        "freeze": ("freeze", ("seconds",)),
        "thaw": ("thaw", ()),
        "away": ("away", ("seconds",)),
        "back": ("back", ()),
        "restart": ("restart", ("seconds",)),
        "trickle": ("trickle", ("rpc", "bytes_per_second")),
        "repeat": ("repeat_next", ("events",)),
        "reorder": ("reorder_next", ("events",)),
        "resend": ("resend_on_reconnect", ("events",)),
        "expire-tokens": ("expire_tokens", ("in_stream",)),
        "revoke": ("revoke", ("token",)),
        "lock-out": ("lock_out", ("username",)),
        "unlock": ("unlock", ("username",)),
        "reset-replay-ids": ("reset_replay_ids", ("old_ids",)),
        "forget-schema": ("forget_schema", ("schema_id",)),
    }
    if args.command == "keepalives":
        return f"{args.what}_keepalives", {}
    verb, names = verbs[args.command]
    values = {name: getattr(args, name) for name in names}
    return verb, {name: value for name, value in values.items() if value is not None}
