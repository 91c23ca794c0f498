"""File names in the staging area, and columns of a staged file. Names only; Spark imports it too.

<staging>/_area.json                            the staging area's random id
<staging>/<org>/<consumer>/<topic>/             one consumer's batches of one topic:
    keepalive_point.json                        replay id of the last keepalive
    forgotten.json                              the last `position forget`
    beginning/                                  first epoch: its leases and record
    <epoch>/origin.json                         the position at batch number 0
    <epoch>/swept.json                          the highest number of a swept batch
    <epoch>/history/0000000001.jsonl            commits of a thousand batches, by the first number
    <epoch>/<batch number>/                     one batch:
        leases/0001.json                        lease; the highest number holds the batch
        attempts/0001/part-0000000000.parquet   closed files of that lease, by first ordinal
        schemas/<schema_id>.avsc                every schema its events were written with
        schemas/<schema_id>.unknown             instead: the reason that the service has no such
                                                schema; events with it go to quarantine
        announced.json                          a watcher has announced the batch
        extra_deliveries.json                   extra deliveries, by cause; if there were any
        manifest.json                           created once, last: the batch is staged
        confirmed.json                          replay id that Salesforce keeps, if managed
        receipt.json                            the receipt: the batch is landed
"""

from __future__ import annotations

import re
from urllib.parse import quote

KEEPALIVE_POINT = "keepalive_point.json"
FORGOTTEN = "forgotten.json"
ORIGIN = "origin.json"
SWEPT = "swept.json"
BEGINNING = "beginning"
HISTORY = "history"
LEASES = "leases"
ATTEMPTS = "attempts"
SCHEMAS = "schemas"
EXTRA_DELIVERIES = "extra_deliveries.json"
ANNOUNCED = "announced.json"
MANIFEST = "manifest.json"
CONFIRMED = "confirmed.json"
RECEIPT = "receipt.json"
AREA = "_area.json"  # beside the orgs: the staging area's id
MANAGED = "_managed"  # beside the orgs: which consumer a managed subscription delivers to
JOBS = "_jobs"  # beside the orgs: the Spark job's archive, as it is shipped to the cluster
PROBES = "_probes"  # beside the orgs: files that Spark reads before the first delivery
STATES = "_states"  # beside the orgs: leases on current-state tables
UPKEEP = "_upkeep"  # beside the orgs: reports of upkeep jobs, until their task has read them
READS = "_reads"  # beside the orgs: full records on their way to `spark/entity_snapshot.py`
PUBLISHED = "_published"  # beside the orgs: ledgers of published events; see `publish_ledger`

PER_HISTORY_FILE = 1_000
"""Number of batches in a file of the history."""

NAMELESS = "(none)"  # no other name becomes this: its brackets would be quoted

# Columns of a staged Parquet file, in order.
ORDINAL = "ordinal"  # int64, from 0 within the batch
EVENT_ID = "event_id"  # string, empty if the service sent none
REPLAY_ID = "replay_id"  # binary, opaque
SCHEMA_ID = "schema_id"  # string
RECEIVED_AT = "received_at"  # timestamp, microseconds, UTC
PAYLOAD = "payload"  # binary: Avro, without its schema; or a message of the Streaming API
STAGED_COLUMNS = (ORDINAL, EVENT_ID, REPLAY_ID, SCHEMA_ID, RECEIVED_AT, PAYLOAD)

FOOTER = "sfevents"  # key in a staged file's Parquet footer; its value is `Part` as JSON


def topic_folder(org_id: str, consumer: str, topic: str) -> str:
    """Return the path of a consumer's topic below the staging root, one segment per name."""
    return "/".join((_segment(org_id), _segment(consumer), _segment(topic_name(topic))))


def topic_name(topic: str) -> str:
    """Return `/event/Order__e` as `event.Order__e`, of characters that keys and paths take.

    Other characters, which a filter may have, become their code after a dash, which no name of a
    topic has: `/topic/Orders?City=Rome` is `topic.Orders-3fCity-3dRome`.
    """
    dotted = topic.strip("/").replace("/", ".")
    return re.sub(r"[^\w.]", lambda found: f"-{ord(found[0]):02x}", dotted, flags=re.ASCII)


def batch_folder(epoch: str, batch_number: int) -> str:
    """Return the path of a batch below its topic's folder; names sort as numbers."""
    return f"{epoch}/{batch_number:010d}"


def batch_id(epoch: str, batch_number: int) -> str:
    return f"{epoch}-{batch_number}"


def first_in_history(batch_number: int) -> int:
    """Return the first batch number of the history file that holds this batch."""
    return batch_number - (batch_number - 1) % PER_HISTORY_FILE


def history_file(epoch: str, batch_number: int) -> str:
    """Return the path of the history file that has a batch, below its topic's folder."""
    return f"{epoch}/{HISTORY}/{first_in_history(batch_number):010d}.jsonl"


def managed_name(org_id: str, subscription: str) -> str:
    """Return the path of a managed subscription's file below the staging root."""
    return f"{MANAGED}/{_segment(org_id)}/{_segment(subscription)}.json"


def attempt_folder(lease: int) -> str:
    return f"{ATTEMPTS}/{lease:04d}"


def part_name(first_ordinal: int) -> str:
    return f"part-{first_ordinal:010d}.parquet"


def schema_name(schema_id: str) -> str:
    return f"{SCHEMAS}/{_segment(schema_id)}.avsc"


def unknown_schema_name(schema_id: str) -> str:
    return f"{SCHEMAS}/{_segment(schema_id)}.unknown"


def _segment(name: str) -> str:
    """Return a path segment that any store takes; different names give different segments."""
    if not name:
        return NAMELESS
    quoted = quote(name, safe="@+ ")
    return quoted.replace(".", "%2E") if set(name) == {"."} else quoted
