"""Commands for managed subscriptions: arguments, and requests to a running emulator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator.managed.subscription_rules import REPLAYS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from airflow_provider_sfevents.emulator.cli.remote import Remote

_FIELDS = ("default_replay", "error_recovery_replay", "label")
_STATES = {"run": "RUN", "stop": "STOP"}


def add(commands: Any, where: argparse.ArgumentParser) -> None:
    """Add the `managed` command to the parser.

    :param where: parser of the options that select the emulator.
    """
    top = commands.add_parser("managed", help="managed subscriptions: list, define, change, delete")
    actions = top.add_subparsers(dest="action", required=True, metavar="ACTION")

    def action(name: str, does: str) -> argparse.ArgumentParser:
        made: argparse.ArgumentParser = actions.add_parser(name, parents=[where], help=does)
        if name != "list":
            made.add_argument("name", help="its developer name, or the id of one that exists")
        return made

    action("list", "with what is committed, and whether a client is there")
    define = action("define", "add one")
    define.add_argument("topic", help="such as /event/Order__e or /data/ChangeEvents")
    for one in (define, action("set", "change one")):
        one.add_argument("--default-replay", choices=REPLAYS, help="while nothing is committed")
        one.add_argument("--error-recovery-replay", choices=REPLAYS, help="when that is invalid")
        one.add_argument("--label")
    action("stop", "end its stream, and forget what is committed")
    action("run", "accept subscribers again")
    action("delete", "remove it")


def run(args: argparse.Namespace, remote: Remote) -> Iterator[str]:
    """Run `managed` and yield its lines of output."""
    if args.action == "list":
        found = remote.get("managed")["managed"]
        yield from (_line(one) for one in found)
        if not found:
            yield "no managed subscription"
    elif args.action == "delete":
        remote.post("managed/delete", name_or_id=args.name)
        yield f"{args.name}: deleted"
    elif args.action == "define":
        yield _line(remote.post("managed/define", name=args.name, topic=args.topic, **_given(args)))
    else:
        yield _line(remote.post("managed/set", name_or_id=args.name, **_given(args)))


def _given(args: argparse.Namespace) -> dict[str, str]:
    """Fields to set."""
    if args.action in _STATES:
        return {"state": _STATES[args.action]}
    return {name: getattr(args, name) for name in _FIELDS if getattr(args, name) is not None}


def _line(one: dict[str, Any]) -> str:
    """Describe a subscription.

    Name, id, topic, state, replay presets and the committed replay id.
    """
    committed = one["committed"] or "nothing"
    words = [
        f"{one['developer_name']} ({one['id']}): {one['topic']}, {one['state']}",
        f"default {one['default_replay']}",
        f"recovery {one['error_recovery_replay']}",
        f"{committed} committed",
    ]
    if "active" in one:
        words.append("a client is there" if one["active"] else "no client")
    return ", ".join(words)
