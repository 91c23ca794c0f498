"""The command `sfevents-emulator`: start an emulator, publish to it, look into it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_sfevents.emulator import cli, commands
from airflow_provider_sfevents.emulator.emulator import Emulator
from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.remote import Whereabouts, state_file

if TYPE_CHECKING:
    import argparse


def main(argv: list[str] | None = None) -> int:
    """Run one command; 0 when it did what it was asked, 2 when it could not, 130 when it was interrupted."""
    args = cli.parser().parse_args(argv)
    try:
        if args.command == "start":
            _start(args)
        else:
            for line in commands.run(args):
                print(line)
    except EmulatorError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130  # as shells say it
    except BrokenPipeError:
        # Whoever read our output has seen enough, say `head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _start(args: argparse.Namespace) -> None:
    """Run an emulator until SIGINT or SIGTERM."""
    stop = threading.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: stop.set())
    emulator = Emulator(
        tls=args.tls,
        folder=args.folder,
        knobs=cli.knobs(args.knob, args.keepalive),
        sample=args.sample,
        grpc_port=args.grpc_port,
        http_port=args.http_port,
        login_port=args.login_port,
        host=args.host,
    )
    state = (Path(args.state) if args.state else state_file(args.folder)).resolve()
    with emulator:
        where = emulator.whereabouts
        where.write(state)
        _say(emulator, where, state)
        stop.wait()
        if (
            state.exists() and Whereabouts.read(state) == where
        ):  # not that of an emulator started later
            state.unlink()
    print("stopped", flush=True)


def _say(emulator: Emulator, where: Whereabouts, state: Path) -> None:
    print(f"Pub/Sub API  {where.endpoint}")
    print(f"Login URL    {where.login_url}")
    print(f"My Domain    {where.url}")
    print(f"Org          {where.org_id}")
    if where.ca_file:
        print(f"CA           {where.ca_file}")
    print(f"State file   {state}")
    print(f"Connection   {emulator.connection_json()}")
    print("Stop it with Ctrl-C.", flush=True)


if __name__ == "__main__":
    sys.exit(main())
