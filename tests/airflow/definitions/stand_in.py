"""A stand-in for the Spark job: replaces the batch's rows and writes the receipt.

Its table is JSON files, one for each batch. A file beside the tables, `orders/<topic>`, has further
orders, of which each job takes the first line: `fail`, `forget` the receipt, or `hang` until the
file `go/<topic>` exists.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq

from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.manifest import Manifest, Receipt

ROOT = Path(os.environ["TEST_FOLDER"])


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--manifest", required=True)
    file = Path(unquote(urlsplit(arguments.parse_known_args()[0].manifest).path))
    manifest = Manifest.from_json(file.read_text(), str(file))
    topic = manifest.topic.rpartition("/")[2]
    _note("jobs", topic, f"{os.getpid()} {manifest.batch_id}")
    order = _next_order(topic)
    if order == "fail":
        sys.exit("the stand-in was told to fail")
    if order == "hang":
        _wait_for(ROOT / "go" / topic)
    _land(file, manifest)
    if order != "forget":
        receipt = Receipt(
            batch_id=manifest.batch_id,
            events=manifest.events,
            tables={"stand-in": manifest.events},
            quarantined=0,
            written_at=datetime.now(UTC).isoformat(),
        )
        _replace(file.parent / layout.RECEIPT, receipt.to_json())


def _wait_for(go: Path) -> None:
    deadline = time.monotonic() + 300  # no longer than any test
    while not go.exists():
        if time.monotonic() > deadline:
            sys.exit("the stand-in was not allowed to continue")
        time.sleep(0.05)


def _land(file: Path, manifest: Manifest) -> None:
    """Replace the rows of the batch, in one move."""
    ids = [
        event_id
        for part in manifest.parts
        for event_id in pq.read_table(file.parent / part.path)[layout.EVENT_ID].to_pylist()
    ]
    topic = manifest.topic.rpartition("/")[2]
    target = ROOT / "table" / manifest.consumer / topic / f"{manifest.batch_id}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    _replace(target, json.dumps(ids))
    _note("landings", topic, manifest.batch_id)


def _next_order(topic: str) -> str:
    """Take the first line; jobs of several tasks may come at once."""
    file = ROOT / "orders" / topic
    if not file.exists():
        return ""
    with file.open("r+") as orders:
        fcntl.flock(orders, fcntl.LOCK_EX)
        first, *rest = orders.read().splitlines(keepends=True) or [""]
        orders.seek(0)
        orders.truncate()
        orders.writelines(rest)
    return first.strip()


def _note(kind: str, topic: str, line: str) -> None:
    file = ROOT / kind / topic
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as notes:
        notes.write(f"{line}\n")


def _replace(file: Path, text: str) -> None:
    new = file.with_name(f"{file.name}.{os.getpid()}")
    new.write_text(text)
    new.replace(file)


main()
