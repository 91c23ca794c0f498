"""Command line of the proof: `python -m tests.proof soak` and `python -m tests.proof report`.

See docs/explanation/proof.md.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

from tests.harness import spark
from tests.harness.airflow_home import make_database
from tests.proof import figures
from tests.proof.soak import BrokenPromiseError, Soak
from tests.proof.stage import open_stage


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 0 if no event was lost or doubled."""
    options = _parser().parse_args(arguments)
    match options.command:
        case "soak":
            return _soak(options)
        case "forget":
            figures.forget()
            return 0
    return _report()


def _parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m tests.proof", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    soak = commands.add_parser("soak", help="rounds of random kills and faults")
    soak.add_argument("--rounds", type=int, default=300)
    soak.add_argument("--seed", type=int, help="default: another one each time")
    soak.add_argument(
        "--spark-every", type=int, default=25, metavar="N", help="every so many rounds the real job"
    )
    commands.add_parser("forget", help="throw the figures of earlier runs away")
    commands.add_parser("report", help="the figures of what has run")
    return top


def _soak(options: argparse.Namespace) -> int:
    seed = random.randrange(10**6) if options.seed is None else options.seed  # noqa: S311
    folder = Path(tempfile.mkdtemp(prefix="sfevents-soak-"))
    _say(f"seed {seed}: {options.rounds} rounds in {folder}")
    (folder / "database").mkdir()
    database = make_database(folder / "database")
    with open_stage(folder, database, spark.environment()) as stage:
        soak = Soak(
            stage=stage, seed=seed, rounds=options.rounds, spark_every=options.spark_every, say=_say
        )
        try:
            soak.run()
        except BrokenPromiseError as broken:
            _say(f"BROKEN: {broken}")
            return 1
    figures.note_soak(soak)
    shutil.rmtree(folder)
    _say(f"{soak.rounds} rounds survived: zero lost, zero doubled (seed {seed})")
    return 0


def _report() -> int:
    lines, whole = figures.report()
    _say("\n".join(lines))
    return 0 if whole else 1


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
