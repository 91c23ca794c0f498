"""Run an emulator on commands from standard input, one line of JSON each.

See `emulated_salesforce`. `python -m tests.harness.emulator_host FOLDER KNOB=VALUE ...` ends at the
end of its standard input, so that no emulator outlives the tests that started it.
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
