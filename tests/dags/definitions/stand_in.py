"""A stand-in for the Spark job, which writes the receipt and lands nothing.

It fails if the environment variable STAND_IN is `fail`. COMMAND_LINES names a folder for the
command lines of this process and its ancestors.
"""

from __future__ import annotations

import argparse
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.manifest import Manifest, Receipt

arguments = argparse.ArgumentParser()
arguments.add_argument("--manifest", required=True)
manifest_file = Path(unquote(urlsplit(arguments.parse_known_args()[0].manifest).path))
manifest = Manifest.from_json(manifest_file.read_text(), str(manifest_file))
receipt = Receipt(
    batch_id=manifest.batch_id,
    events=manifest.events,
    tables={"stand-in": manifest.events},
    quarantined=0,
    written_at=datetime.now(UTC).isoformat(),
)
if folder := os.environ.get("COMMAND_LINES"):
    pid, lines = os.getpid(), []
    while pid:
        lines.append(Path(f"/proc/{pid}/cmdline").read_bytes())
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    Path(folder, str(os.getpid())).write_bytes(b"\n".join(lines))
if os.environ.get("STAND_IN") == "fail":
    sys.exit("the stand-in was told to fail")
(manifest_file.parent / layout.RECEIPT).write_text(receipt.to_json())
