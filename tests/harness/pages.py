"""Code samples of the documentation's pages, for tests that run them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DOCS = Path(__file__).parents[2] / "docs"


@dataclass(frozen=True)
class Command:
    """A command of a page, with the lines that the page shows below it."""

    line: str
    prints: tuple[str, ...] = ()


class Page:
    """One page, by its path below `docs/`.

    Samples are found by their language and the heading above them.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.text = (DOCS / name).read_text(encoding="utf-8")

    def samples(self, language: str, heading: str | None = None) -> Sequence[str]:
        """Samples of the page, or of the section below `heading` (written with its `#`)."""
        text = self.text if heading is None else self._section(heading)
        found = re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
        assert found or heading is None, f"{self.name}: no {language} below {heading}"
        return found

    def commands(self) -> Sequence[Command]:
        """Commands of the `console` samples: lines after `$ `, with the lines that they print."""
        found: list[Command] = []
        for line in "\n".join(self.samples("console")).splitlines():
            if line.startswith("$ "):
                found.append(Command(line.removeprefix("$ ")))
            else:
                found[-1] = Command(found[-1].line, (*found[-1].prints, line))
        return found

    def files(self) -> Mapping[str, str]:
        """Samples of Python that begin with their path in a comment, by that path."""
        found = (
            (re.match(r"# ([\w/]+\.py)\n", sample), sample) for sample in self.samples("python")
        )
        return {path[1]: sample for path, sample in found if path}

    def _section(self, heading: str) -> str:
        depth = heading.index(" ")
        below = self.text.split(f"\n{heading}\n")[1]
        return re.split(rf"^#{{1,{depth}}} ", below, flags=re.MULTILINE)[0]


def pages() -> Sequence[Page]:
    """Every page of the documentation."""
    return [Page(str(path.relative_to(DOCS))) for path in sorted(DOCS.rglob("*.md"))]
