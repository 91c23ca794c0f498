"""Make docs/reference/spark-jobs.md from the jobs' own options.

Run it by `python -m scripts.options_page`.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_sfevents.spark.current_state.current_state_options import ApplyOptions
from airflow_provider_sfevents.spark.current_state.snapshot.snapshot_options import SnapshotOptions
from airflow_provider_sfevents.spark.landing.landing_options import LandingOptions
from airflow_provider_sfevents.spark.options import command_line
from airflow_provider_sfevents.spark.upkeep.plan import UpkeepOptions

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from airflow_provider_sfevents.spark.options import Options

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "spark-jobs.md"

_INTRO = """# Spark jobs

This page is made from the options that the jobs declare: `make docs-pages`.

Operators start these jobs with `spark-submit`; over a `spark_connect` connection the same work runs
in a session of the server. Each job can be started by hand as well:

```
spark-submit --py-files sfevents.zip land.py \\
    --manifest <URL of manifest.json> --table <root of the tables>
```

The zip is made by `airflow_provider_sfevents.submit.packaging.py_files(folder)`, and
`packaging.application()` is the path of `land.py`. A URL is any that Spark can read, or write. A
job that fails prints one line with the reason and the remedy, and exits with 1; running it again is
always safe.
"""

_JOBS: tuple[tuple[str, str, tuple[type[Options], ...]], ...] = (
    (
        "land.py",
        """Lands a staged batch in the [event tables](tables.md). Exit code 0 means that every event
of the batch is in a table or in quarantine, and that there is a receipt.""",
        (LandingOptions,),
    ),
    (
        "apply.py",
        """Lands a batch of change events as `land.py` does, with the same options; then applies it
to the [current-state tables](../explanation/change-events.md#as-a-spark-job), and writes the
receipt. Its options beside those of `land.py`:""",
        (ApplyOptions,),
    ),
    (
        "entity_snapshot.py",
        """Makes an entity's records equal a full read of the org
([by hand](../how-to/follow-an-org.md#by-hand)). Text of a read is cast to the table's types; a
value that does not fit is refused, by name, before anything is changed. Compounds are made of a
struct's members or of fields of their own (`BillingStreet`, `Place__Latitude__s`, `FirstName`).
Empty text is null, as it is to Salesforce. A field that no event carries is left out, and named in
the log.""",
        (SnapshotOptions,),
    ),
    (
        "maintain.py",
        "[Upkeep](../how-to/upkeep.md) of event tables and current-state tables.",
        (UpkeepOptions,),
    ),
)


def page() -> str:
    """Text of the page."""
    return "\n".join([_INTRO, *(line for job in _JOBS for line in _section(*job))])


def _section(job: str, text: str, kinds: tuple[type[Options], ...]) -> Iterable[str]:
    known = {one.name for one in fields(LandingOptions)} if job == "apply.py" else set()
    yield f"## {job}\n\n{text}\n"
    yield "| option | meaning |\n|---|---|"
    for action in command_line(job, *kinds)._actions:  # noqa: SLF001 - argparse has no other list
        if action.dest not in {"help", *known}:
            yield _row(action)
    yield ""


def _row(action: argparse.Action) -> str:
    metavar = f" {action.metavar}" if action.metavar else ""
    required = " Required." if action.required else ""
    text = str(action.help).replace("%%", "%")
    return f"| `{action.option_strings[0]}{metavar}` | {text}.{required} |".replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(page().rstrip() + "\n", encoding="utf-8")
