"""Progress of the demo: one line for each step, updated in place on a terminal."""

from __future__ import annotations

import contextlib
import io
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

REMIND_SECONDS = 15.0
_WIDTH = 68
_TURNS = "|/-\\"


class Screen:
    """Lines of progress: animated on a terminal, elsewhere repeated every 15 s."""

    def __init__(self) -> None:
        self._terminal = sys.stdout.isatty()
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # names of customers, on terminals of any kind

    def say(self, text: str = "") -> None:
        print(text, flush=True)

    def heading(self, text: str) -> None:
        self.say(f"\n\033[1m{text}\033[0m" if self._terminal else f"\n{text}")

    @contextlib.contextmanager
    def step(self, title: str, doing: Callable[[], str] = lambda: "") -> Iterator[None]:
        """A step of the work: its title, and the time it took once it is done.

        :param doing: returns the current activity.
        """
        began = time.monotonic()
        done = threading.Event()
        ticker = threading.Thread(target=self._tick, args=(title, doing, began, done))
        ticker.start()
        try:
            yield
        except BaseException:
            mark = "x"
            raise
        else:
            mark = "ok"
        finally:
            done.set()
            ticker.join()
            self._wipe()
            self.say(f"  {mark:<2}  {title:<{_WIDTH}} {time.monotonic() - began:6.1f} s")

    def table(self, rows: Iterable[Sequence[object]], indent: str = "      ") -> None:
        """Rows under one another, the first one being headings; numbers to the right."""
        texts = [[_text(value) for value in row] for row in rows]
        numbers = [isinstance(value, int | float) for value in list(rows)[-1]]
        widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
        for row in texts:
            cells = [
                text.rjust(width) if number else text.ljust(width)
                for text, width, number in zip(row, widths, numbers, strict=True)
            ]
            self.say((indent + "  ".join(cells)).rstrip())

    def _tick(
        self, title: str, doing: Callable[[], str], began: float, done: threading.Event
    ) -> None:
        turns = 0
        while not done.wait(0.2 if self._terminal else REMIND_SECONDS):
            seconds = time.monotonic() - began
            now = doing()
            if self._terminal:
                line = f"  {_TURNS[turns % 4]}   {title}  {seconds:.0f} s  {now}"
                print(f"\r{line[: _WIDTH + 16]:<{_WIDTH + 16}}", end="", flush=True)
            else:
                self.say(f"  ..  {title}: {seconds:.0f} s{now and ', '}{now}")
            turns += 1

    def _wipe(self) -> None:
        if self._terminal:
            print(f"\r{'':<{_WIDTH + 16}}\r", end="")


def _text(value: object) -> str:
    return "" if value is None else f"{value:,.2f}" if isinstance(value, float) else str(value)
