"""Command lines of `airflow sfevents` that texts name, to copy into a shell."""

from __future__ import annotations

import shlex


def command_line(*words: str) -> str:
    """Build a command line of these words after `airflow sfevents`.

    A filter of a PushTopic (`/topic/Orders?Kind=a&Size=b`) needs quotes; a placeholder such as
    `<replay id>` stays as it is.
    """
    quoted = (one if one.startswith("<") else shlex.quote(one) for one in words)
    return " ".join(("airflow sfevents", *quoted))
