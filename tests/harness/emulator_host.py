"""An emulator in a process of its own that does what it is told, a line of JSON for each verb: see `emulated_salesforce`.

python -m tests.harness.emulator_host FOLDER KNOB=VALUE ...

It ends when its standard input does, so that none outlives the tests that started it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from airflow_provider_sfevents.emulator import Emulator
from airflow_provider_sfevents.emulator.cli.command_line import knobs
from airflow_provider_sfevents.emulator.cli.remote import state_file


def main(folder: str, *settings: str) -> None:
    with Emulator(folder=folder, knobs=knobs(list(settings), None)) as emulator:
        emulator.address.write(state_file(folder))
        for line in sys.stdin:
            order = json.loads(line)
            found: Any = emulator
            for name in order["verb"].split("."):
                found = getattr(found, name)
            found(**order["arguments"])
            sys.stdout.write("done\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
