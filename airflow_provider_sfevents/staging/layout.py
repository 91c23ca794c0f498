"""What lies where in the staging area, and what a staged file holds. Names only; the Spark side imports it too.

<staging>/_area.json                                            the staging area's random id
<staging>/<org>/<consumer>/<topic>/anchor.json                  a keepalive's replay id
<staging>/<org>/<consumer>/<topic>/forgotten.json               when the position was last forgotten by hand
<staging>/<org>/<consumer>/<topic>/beginning/                   claims of who is about to begin the first epoch, and which that will be
<staging>/<org>/<consumer>/<topic>/<epoch>/origin.json          the position at sequence 0
<staging>/<org>/<consumer>/<topic>/<epoch>/<sequence>/          one batch:
    claims/0001.json                    who is at work; the highest number holds the batch
    attempts/0001/part-0000000000.parquet   closed files of that claim, named by first ordinal
    schemas/<schema_id>.avsc            every schema its events were written with
    schemas/<schema_id>.unknown         instead: why the service has no such schema; its events go to quarantine
    announced.json                      a watcher has said that the batch is there
    excess.json                         deliveries that brought nothing, by cause; where there were any
    manifest.json                       created once, last: the batch is staged
    confirmed.json                      Salesforce keeps this place (managed subscriptions)
    landed.json                         the receipt: the batch is landed
"""

from __future__ import annotations

from urllib.parse import quote

ANCHOR = "anchor.json"
FORGOTTEN = "forgotten.json"
ORIGIN = "origin.json"
BEGINNING = "beginning"
CLAIMS = "claims"
ATTEMPTS = "attempts"
SCHEMAS = "schemas"
EXCESS = "excess.json"
ANNOUNCED = "announced.json"
MANIFEST = "manifest.json"
CONFIRMED = "confirmed.json"
RECEIPT = "landed.json"
AREA = "_area.json"  # beside the orgs: the staging area's id
MANAGED = "_managed"  # beside the orgs: which consumer a managed subscription delivers to
JOBS = "_jobs"  # beside the orgs: the Spark job as it is shipped
PROBES = "_probes"  # beside the orgs: files that Spark reads before the first delivery
STATES = "_states"  # beside the orgs: claims of who writes tables of records
UPKEEP = "_upkeep"  # beside the orgs: reports of upkeep, until their task has read them
READS = "_reads"  # beside the orgs: full records on their way to `spark/resolve.py`
PUBLISHED = "_published"  # beside the orgs: which events a task has published; see `published`

NAMELESS = "(none)"  # no other name becomes this: its brackets would be quoted

# Columns of a staged Parquet file, in order.
ORDINAL = "ordinal"  # int64, from 0 within the batch
EVENT_ID = "event_id"  # string, empty where the service sent none
REPLAY_ID = "replay_id"  # binary, opaque
SCHEMA_ID = "schema_id"  # string
RECEIVED_AT = "received_at"  # timestamp, microseconds, UTC
PAYLOAD = "payload"  # binary: Avro, without its schema
STAGED_COLUMNS = (ORDINAL, EVENT_ID, REPLAY_ID, SCHEMA_ID, RECEIVED_AT, PAYLOAD)

FOOTER = "sfevents"  # key in a staged file's Parquet footer; its value is `Part` as JSON


def topic_folder(org_id: str, consumer: str, topic: str) -> str:
    """Path of a consumer's topic below the staging root; each name is one path segment."""
    return "/".join(
        (_segment(org_id), _segment(consumer), _segment(topic.lstrip("/").replace("/", ".")))
    )


def batch_folder(epoch: str, sequence: int) -> str:
    """Path of a batch below its topic's folder; zero-padded so that names sort as numbers do."""
    return f"{epoch}/{sequence:010d}"


def batch_id(epoch: str, sequence: int) -> str:
    return f"{epoch}-{sequence}"


def managed_name(org_id: str, subscription: str) -> str:
    """Path below the staging root."""
    return f"{MANAGED}/{_segment(org_id)}/{_segment(subscription)}.json"


def attempt_folder(claim: int) -> str:
    return f"{ATTEMPTS}/{claim:04d}"


def part_name(first_ordinal: int) -> str:
    return f"part-{first_ordinal:010d}.parquet"


def schema_name(schema_id: str) -> str:
    return f"{SCHEMAS}/{_segment(schema_id)}.avsc"


def unknown_schema_name(schema_id: str) -> str:
    return f"{SCHEMAS}/{_segment(schema_id)}.unknown"


def _segment(name: str) -> str:
    """One path segment any store takes, different for different names, the empty one among them."""
    if not name:
        return NAMELESS
    quoted = quote(name, safe="@+ ")
    return quoted.replace(".", "%2E") if set(name) == {"."} else quoted
