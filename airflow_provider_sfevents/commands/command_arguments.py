"""Arguments of `airflow sfevents`.

Airflow imports this whenever one of its commands starts, and leaves all commands of a provider out
if the import fails. So nothing is imported here but modules that Airflow itself has loaded by then;
the code of a command is loaded when the command is run.
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

_CONSUMER = Arg(("consumer",), help="The task's `consumer`; by default the id of its DAG")
_TOPIC = Arg(("topic",), help="The topic, such as /event/Order__e")
_ANY_CONSUMER = Arg(
    ("consumer",), nargs="?", help="The task's `consumer`; without it, all positions are listed"
)
_ANY_TOPIC = Arg(("topic",), nargs="?", help="The topic, such as /event/Order__e")
_START = Arg(
    ("start",),
    metavar="earliest|latest|REPLAY_ID",
    help="Start of the next run: `earliest` (all events that the bus still holds), `latest` "
    "(events published after that run has subscribed), or after a replay id in hex",
)
_TRANSPORT = Arg(
    ("--transport",),
    choices=["pubsub", "streaming"],
    help="Salesforce's API, for topics that both have; a replay id of one means nothing to the "
    "other. Default: the position's if there is one, or the connection's",
)
_BATCH_ID = Arg(
    ("batch_id",), help="As `airflow sfevents batches list` shows it: <epoch>-<batch number>"
)
_STORE = Arg(
    ("--position-store",),
    default="variable",
    metavar="STORE",
    help="The task's `position_store`: variable, asset, xcom, or the dotted path of a store of "
    "your own (default: variable)",
)
_STAGING = Arg(
    ("--staging",),
    metavar="URL",
    help="The task's `staging` (default: the folder sfevents below AIRFLOW_HOME)",
)
_CONN_ID = Arg(
    ("--conn-id",),
    metavar="CONN_ID",
    help="Connection to log in to the org (default: the org of the position; without a position "
    "sfevents_default)",
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
    help="Include change events of objects that are not selected in Setup, Change Data Capture",
)
_EVERY_LIMIT = Arg(
    ("-a", "--all"), action="store_true", help="All limits of the org, not only those of events"
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
    help="Leave behind a batch that is staged and has not landed",
)
_FORCE = Arg(
    ("--force",), action="store_true", help="Take the batch even from a holder that is at work"
)
_DOWNSTREAM = Arg(
    ("-d", "--downstream"),
    action="store_true",
    help="Clear the tasks after it, too; in a chain they are always cleared",
)
_DRY_RUN = Arg(("--dry-run",), action="store_true", help="Only show what would be cleared")

_FROM = Arg(
    ("--from",),
    dest="start",
    default="latest",
    help="Where to start: latest (default), earliest, or after a replay id in hex",
)
_MOST = Arg(("--max-events",), type=int, help="End after so many events; default: never")
_TO_CHECK = Arg(
    ("--topic",),
    action="append",
    metavar="TOPIC",
    help="A topic to check: the user's permission, its selection in Change Data Capture, its "
    "channel; may be given several times",
)
_SPARK_CONN_ID = Arg(
    ("--spark-conn-id",),
    metavar="CONN_ID",
    help="Spark connection to check, with Java and jars (default: Spark is not checked)",
)
_EVERY_POSITION = Arg(
    ("-a", "--all"),
    action="store_true",
    help="Check all positions in Variables and in the state of assets, and their topics",
)
_FAIL = Arg(("--fail",), action="store_true", help="Exit with code 1 if a check fails")

_WHERE = (_STORE, _STAGING, _CONN_ID)


def get_commands() -> list[GroupCommand]:
    """Return the commands that Airflow adds to its command line; named in the provider info."""
    return [
        GroupCommand(
            name="sfevents",
            help="Positions and batches of Salesforce events, topics and limits of an org",
            subcommands=(
                GroupCommand(
                    name="position",
                    help="Positions of consumers on topics",
                    subcommands=_POSITION,
                ),
                GroupCommand(
                    name="batches",
                    help="Staged batches of a topic for a consumer",
                    subcommands=_BATCHES,
                ),
                GroupCommand(
                    name="topics",
                    help="Topics and channels of an org",
                    subcommands=_TOPICS,
                ),
                ActionCommand(
                    name="limits",
                    help="Show how many deliveries and publishes the org has left",
                    func=_does("limits.show"),
                    args=(_OF_ORG, _EVERY_LIMIT, ARG_OUTPUT, ARG_VERBOSE),
                ),
                ActionCommand(
                    name="tail",
                    help="Print the events of a topic as JSON lines, as they come",
                    description="Print events as JSON lines, as they come. Each counts against "
                    "the org's daily allowance; no position is read or moved.",
                    func=_does("topics.tail"),
                    args=(_TOPIC, _FROM, _MOST, _TRANSPORT, _OF_ORG, ARG_VERBOSE),
                ),
                ActionCommand(
                    name="doctor",
                    help="Check login, topics, staging area, Spark, triggerer and positions",
                    description="Check a set-up: one line for each check, with a remedy. Nothing "
                    "is published, requested or moved.",
                    func=_does("doctor.run"),
                    args=(
                        _OF_ORG,
                        _TO_CHECK,
                        _STAGING,
                        _SPARK_CONN_ID,
                        _EVERY_POSITION,
                        _FAIL,
                        ARG_OUTPUT,
                        ARG_VERBOSE,
                    ),
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
        help="Move a position to another replay id",
        description="Move a position: begin a new epoch at the given start. No event lands twice "
        "because of it.",
        func=_does("position.set_"),
        args=(_CONSUMER, _TOPIC, _START, _TRANSPORT, *_WHERE, _ABANDON, ARG_YES, ARG_VERBOSE),
    ),
    ActionCommand(
        name="forget",
        help="Make the next run a first run",
        description="Delete the position, on purpose: the next run is a first run and begins at "
        "its `initial_replay`.",
        func=_does("position.forget"),
        args=(_CONSUMER, _TOPIC, *_WHERE, _ABANDON, ARG_YES, ARG_VERBOSE),
    ),
    ActionCommand(
        name="acknowledge",
        help="Acknowledge loss windows",
        description="Acknowledge the position's loss windows: they stay recorded, and are no alert "
        "any more.",
        func=_does("position.acknowledge"),
        args=(_CONSUMER, _TOPIC, *_WHERE, ARG_YES, ARG_VERBOSE),
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
        help="Release a batch whose holder is gone",
        description="Release a batch whose holder is gone and cannot be seen from this machine; "
        "its lease heartbeat is watched for half a minute first.",
        func=_does("batches.release"),
        args=(_CONSUMER, _TOPIC, _BATCH_ID, *_WHERE, _FORCE, ARG_YES, ARG_VERBOSE),
    ),
    ActionCommand(
        name="reland",
        help="Land a batch again",
        description="Land a batch again: clear the task that staged it, which then lands only "
        "that batch. The position stays.",
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
