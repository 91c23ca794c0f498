"""The command `sfevents-emulator`: start an emulator, publish to it, inspect it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_sfevents.emulator.cli import command_line, emulator_commands
from airflow_provider_sfevents.emulator.cli.remote import EmulatorAddress, state_file
from airflow_provider_sfevents.emulator.emulator import Emulator
from airflow_provider_sfevents.emulator.errors import EmulatorError

if TYPE_CHECKING:
    import argparse


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code.

    0: done; 2: refused, with the reason on stderr; 130: interrupted.
    """
    args = command_line.parser().parse_args(argv)
    try:
        if args.command == "start":
            _start(args)
        else:
            for line in emulator_commands.run(args):
                print(line)
    except EmulatorError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130  # the exit code that shells use
    except BrokenPipeError:
        # The reader of the output has closed the pipe, for example `head`.
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
        knobs=command_line.knobs(args.knob, args.keepalive),
        sample=args.sample,
        grpc_port=args.grpc_port,
        http_port=args.http_port,
        login_port=args.login_port,
        host=args.host,
    )
    state = (Path(args.state) if args.state else state_file(args.folder)).resolve()
    with emulator:
        address = emulator.address
        address.write(state)
        _print_address(emulator, address, state)
        stop.wait()
        if (
            state.exists() and EmulatorAddress.read(state) == address
        ):  # another emulator may have replaced it
            state.unlink()
    print("stopped", flush=True)


def _print_address(emulator: Emulator, address: EmulatorAddress, state: Path) -> None:
    print(f"Pub/Sub API  {address.endpoint}")
    print(f"Login URL    {address.login_url}")
    print(f"My Domain    {address.url}")
    print(f"Org          {address.org_id}")
    if address.ca_file:
        print(f"CA           {address.ca_file}")
    print(f"State file   {state}")
    print(f"Connection   {emulator.connection_json()}")
    print("Stop it with Ctrl-C.", flush=True)


if __name__ == "__main__":
    sys.exit(main())
