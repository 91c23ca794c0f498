"""The grammar of `airflow sfevents`.

Airflow imports this whenever one of its commands starts, and leaves all commands of a provider out if that fails. So nothing is
imported here but what Airflow itself has loaded by then; what a command does is loaded when it is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.cli.cli_config import (
    ARG_OUTPUT,
    ARG_VERBOSE,
    ARG_YES,
    ActionCommand,
    Arg,
    GroupCommand,
    lazy_load_command,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_CONSUMER = Arg(("consumer",), help="Who reads; unless the task says otherwise, its DAG's id")
_TOPIC = Arg(("topic",), help="What is read, such as /event/Order__e")
_ANY_CONSUMER = Arg(
    ("consumer",), nargs="?", help="Who reads; without it, all positions are listed"
)
_ANY_TOPIC = Arg(("topic",), nargs="?", help="What is read, such as /event/Order__e")
_START = Arg(
    ("start",),
    metavar="earliest|latest|REPLAY_ID",
    help="Where the next run goes on: `earliest` (all that the bus still holds), `latest` (what is published once that run listens), "
    "or after a replay id in hex",
)
_BATCH_ID = Arg(
    ("batch_id",), help="As `airflow sfevents batches list` shows it: <epoch>-<sequence>"
)
_STORE = Arg(
    ("--position-store",),
    default="variable",
    metavar="STORE",
    help="Where the task keeps its position: variable, asset, xcom, or the dotted path of a store of your own (default: variable)",
)
_STAGING = Arg(
    ("--staging",),
    metavar="URL",
    help="The task's staging area, as it is given there (default: the folder sfevents below AIRFLOW_HOME)",
)
_CONN_ID = Arg(
    ("--conn-id",),
    metavar="CONN_ID",
    help="Log in by this connection to learn the org; without it the position tells, and sfevents_default where there is none",
)
_OF_ORG = Arg(
    ("--conn-id",),
    default="sfevents_default",
    metavar="CONN_ID",
    help="Connection to the org (default: sfevents_default)",
)
_UNSELECTED = Arg(
    ("-a", "--all"),
    action="store_true",
    help="Also the change events of objects that are not selected in Setup, Change Data Capture",
)
_EVERY_LIMIT = Arg(
    ("-a", "--all"), action="store_true", help="All limits of the org, not of events alone"
)
_FAIL_OLDER = Arg(
    ("--fail-older-than",),
    type=float,
    metavar="HOURS",
    help="Exit with code 1 if a position is older than this; the bus keeps events for 72 hours",
)
_ABANDON = Arg(
    ("--abandon-staged",),
    action="store_true",
    help="Leave a batch behind that is staged and has not landed",
)
_FORCE = Arg(("--force",), action="store_true", help="Even from a holder that is at work")
_DOWNSTREAM = Arg(
    ("-d", "--downstream"),
    action="store_true",
    help="Clear what comes after the task too; in a chain that is so anyway",
)
_DRY_RUN = Arg(("--dry-run",), action="store_true", help="Only show what would be cleared")

_WHERE = (_STORE, _STAGING, _CONN_ID)


def get_commands() -> list[GroupCommand]:
    """What Airflow adds to its command line; named in the provider info."""
    return [
        GroupCommand(
            name="sfevents",
            help="Positions and batches of Salesforce events, topics and limits of an org",
            subcommands=(
                GroupCommand(
                    name="position",
                    help="How far a consumer has come on a topic",
                    subcommands=_POSITION,
                ),
                GroupCommand(
                    name="batches",
                    help="What is staged of a topic for a consumer",
                    subcommands=_BATCHES,
                ),
                GroupCommand(
                    name="topics",
                    help="What an org offers",
                    subcommands=_TOPICS,
                ),
                ActionCommand(
                    name="limits",
                    help="Show how many deliveries and publishes the org has left",
                    func=_does("limits.show"),
                    args=(_OF_ORG, _EVERY_LIMIT, ARG_OUTPUT, ARG_VERBOSE),
                ),
            ),
        )
    ]


def _does(function: str) -> Callable[..., None]:
    command: Callable[..., None] = lazy_load_command(
        f"airflow_provider_sfevents.commands.{function}"
    )
    return command


_POSITION = (
    ActionCommand(
        name="show",
        help="Show a position, and what the next run will do; or list all positions",
        func=_does("position.show"),
        args=(_ANY_CONSUMER, _ANY_TOPIC, *_WHERE, _FAIL_OLDER, ARG_OUTPUT, ARG_VERBOSE),
    ),
    ActionCommand(
        name="set",
        help="Go on elsewhere",
        description="Go on elsewhere: begin a new epoch of the position at the place that is given. No event lands twice because of it.",
        func=_does("position.set_"),
        args=(_CONSUMER, _TOPIC, _START, *_WHERE, _ABANDON, ARG_YES, ARG_VERBOSE),
    ),
    ActionCommand(
        name="forget",
        help="Make the next run a first run",
        description="Delete the position, on purpose: the next run is a first run and begins at its `initial_replay`.",
        func=_does("position.forget"),
        args=(_CONSUMER, _TOPIC, *_WHERE, _ABANDON, ARG_YES, ARG_VERBOSE),
    ),
)

_BATCHES = (
    ActionCommand(
        name="list",
        help="List the batches that are kept, and their states",
        func=_does("batches.list_"),
        args=(_CONSUMER, _TOPIC, *_WHERE, ARG_OUTPUT, ARG_VERBOSE),
    ),
    ActionCommand(
        name="release",
        help="Let go of a batch whose holder is gone",
        description="Let go of a batch whose holder is gone and cannot be seen from here; it is watched for half a minute first.",
        func=_does("batches.release"),
        args=(_CONSUMER, _TOPIC, _BATCH_ID, *_WHERE, _FORCE, ARG_YES, ARG_VERBOSE),
    ),
    ActionCommand(
        name="reland",
        help="Land a batch again",
        description="Land a batch again: clear the task that staged it, which then lands that batch and nothing else. The position stays.",
        func=_does("batches.reland"),
        args=(_CONSUMER, _TOPIC, _BATCH_ID, *_WHERE, _DOWNSTREAM, _DRY_RUN, ARG_YES, ARG_VERBOSE),
    ),
)

_TOPICS = (
    ActionCommand(
        name="list",
        help="List the topics and channels that an org offers",
        func=_does("topics.list_"),
        args=(_OF_ORG, _UNSELECTED, ARG_OUTPUT, ARG_VERBOSE),
    ),
    ActionCommand(
        name="describe",
        help="Show the events of a topic, with their fields and types",
        func=_does("topics.describe"),
        args=(_TOPIC, _OF_ORG, ARG_OUTPUT, ARG_VERBOSE),
    ),
)
