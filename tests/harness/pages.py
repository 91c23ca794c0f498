"""Code samples of the documentation's pages, for tests that run them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

DOCS = Path(__file__).parents[2] / "docs"


class Page:
    """One page below `docs/`; samples are found by their language and the heading above them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._text = (DOCS / name).read_text(encoding="utf-8")

    def samples(self, language: str, heading: str | None = None) -> Sequence[str]:
        """Samples of the page, or of the section below `heading` (written with its `#`)."""
        text = self._text if heading is None else self._section(heading)
        found = re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
        assert found or heading is None, f"{self.name}: no {language} below {heading}"
        return found

    def commands(self, heading: str | None = None) -> Sequence[str]:
        """Commands of the `console` samples: lines after `$ `, with the lines that continue them."""
        lines = [line for one in self.samples("console", heading) for line in one.splitlines()]
        found: list[str] = []
        for line in lines:
            if found and found[-1].endswith("\\"):
                found[-1] += f"\n{line}"
            elif line.startswith("$ "):
                found.append(line.removeprefix("$ "))
        return found

    def _section(self, heading: str) -> str:
        depth = heading.index(" ")
        below = self._text.split(f"\n{heading}\n")[1]
        return re.split(rf"^#{{1,{depth}}} ", below, flags=re.MULTILINE)[0]


def pages() -> Sequence[Page]:
    """Every page of the documentation."""
    return [Page(str(path.relative_to(DOCS))) for path in sorted(DOCS.rglob("*.md"))]
