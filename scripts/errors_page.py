"""Make docs/reference/errors.md from the client's own tables.

Run it by `python -m scripts.errors_page`.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_sfevents.pubsub.auth import oauth_errors, soap_errors
from airflow_provider_sfevents.pubsub.error_codes import (
    CODES,
    INSIDE_ANSWERS,
    PREFIX,
    RETRIED,
    ErrorKind,
)
from airflow_provider_sfevents.pubsub.rest import rest_errors
from airflow_provider_sfevents.pubsub.rpc_errors import BY_DETAILS, BY_STATUS, ERRORS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "errors.md"

_ROOMS = (
    ("service.", "The service"),
    ("concurrent.", ""),
    ("topic.", "Topics and schemas"),
    ("schema.", ""),
    ("subscription.", "Subscribing"),
    ("publish.", "Publishing"),
    ("managed.", "Managed subscriptions"),
)

_INTRO = f"""# Errors

This page is made from the tables that the client uses: `make docs-pages`.

Every message names the call, Salesforce's answer, its code, the rpc id (which Salesforce's support
asks for), and the remedy. Codes of the Pub/Sub API are listed without their common beginning
`{PREFIX}`. A code decides, not the gRPC status beside it.

"Tried again" is about the client, within a task. A task that fails with anything but "no" is
retried by Airflow as its `retries` say. With "no" the task fails at once, whatever its `retries`,
because a retry changes nothing. Events that a task had staged before an error stay, and are not
paid for again. Publishing is retried by rules of its own: [publish](../how-to/publish.md).

Errors of Spark are lines of the job's log, each with its remedy. A Spark Connect server is checked
before the fetch, and [its page](../how-to/spark-connect.md#checked-before-the-fetch) lists the
checks. One that does not answer is a `TransportError`, all other refusals are a
`ConfigurationError`.
"""


def page() -> str:
    """The whole page."""
    return "\n".join(
        [
            _INTRO,
            "## Kinds\n",
            *_table(
                ("kind", "error", "tried again"),
                ((kind.value, f"`{ERRORS[kind].__name__}`", RETRIED[kind]) for kind in ErrorKind),
            ),
            "",
            *_codes(),
            *_inside(),
            *_without_code(),
            *_logins(),
            *_rest(),
        ]
    )


def _codes() -> Iterable[str]:
    for prefix, title in _ROOMS:
        rows = [one for one in CODES if one.suffix.startswith(prefix)]
        if title:
            yield f"## {title}\n"
            yield from _head(("code", "what it means", "who acts, and how", "tried again"))
        for one in rows:
            kind = one.meaning.kind
            yield _row(
                (f"`{one.suffix}`", one.means, _acts(kind, one.meaning.remedy), RETRIED[kind])
            )
        if prefix not in {"service.", "topic."}:  # the next one goes on with this table
            yield ""


def _inside() -> Iterable[str]:
    yield "## Inside answers\n"
    yield (
        "These are no status of a call, and end no stream. Salesforce's text is shown as it comes; "
        "it\npublishes no list.\n"
    )
    yield from _table(
        ("code", "what it means"), ((f"`{code}`", means) for code, means in INSIDE_ANSWERS)
    )
    yield ""


def _without_code() -> Iterable[str]:
    yield "## Without a code\n"
    yield (
        "The network, a proxy, or another server answered. The text of gRPC decides first, then "
        "the status.\n"
    )
    found = [
        *((f"... {part} ...", meaning) for part, meaning in BY_DETAILS),
        *((f"`{status}`", meaning) for status, meaning in BY_STATUS.items()),
    ]
    rows = ((what, _acts(one.kind, one.remedy), RETRIED[one.kind]) for what, one in found)
    yield from _table(("message or status", "who acts, and how", "tried again"), rows)
    yield (
        "\nAny other status without a code counts as the network's: tried again, with growing "
        "pauses.\n"
    )


def _logins() -> Iterable[str]:
    yield "## Logging in: OAuth\n"
    yield (
        "HTTP 400 with `error` and `error_description`. HTTP 408, 429 and 5xx are tried again by "
        "the task's\nretries.\n"
    )
    again = "by the task's retries alone"
    rows = [
        (f"`{error}`", part, remedy, tried)
        for found, tried in ((oauth_errors.PASSING, again), (oauth_errors.REMEDIES, "no"))
        for error, part, remedy in found
    ]
    yield from _table(("error", "description contains", "what to do", "tried again"), rows)
    yield (
        "\nHTTP 403 with `Bad_OAuth_Token` from the userinfo endpoint: the session token was "
        "refused. Give a\nfresh one.\n"
    )
    yield "## Logging in: SOAP\n"
    yield (
        "HTTP 500 with a fault. See [logging in](../how-to/log-in.md#soap) on the end of this "
        "login.\n"
    )
    faults = (
        (
            f"`{one.code}`",
            one.means,
            one.remedy,
            "by the task's retries alone" if one.passes else "no",
        )
        for one in soap_errors.FAULTS
    )
    yield from _table(("code", "what it means", "what to do", "tried again"), faults)
    yield ""


def _rest() -> Iterable[str]:
    yield "## REST\n"
    yield (
        "Full reads, discovery and limits. A refused session (HTTP 401, `INVALID_SESSION_ID`) is\n"
        "renewed once. Tried again: a connection that fails, HTTP 408, 429 and 5xx, and\n"
        f"{', '.join(f'`{one}`' for one in sorted(rest_errors.PASSING))}.\n"
        "`REQUEST_LIMIT_EXCEEDED` is tried again if its message is about concurrent requests.\n"
        "Otherwise the org's API requests of 24 hours are used up: wait.\n"
        "The others are not tried again:\n"
    )
    rows = ((f"`{code}`", remedy) for code, remedy in rest_errors.REMEDIES.items())
    yield from _table(("code", "what to do"), rows)
    for text in (
        f"HTTP 414 and 431: {rest_errors.TOO_LONG} A query for `record_ids` is made short enough. "
        "Where the names of the fields alone are too long, an error with the same remedy comes "
        "before the query.",
        "HTTP 404 for a resource that is about no object, such as `limits` or the list of objects: "
        f"{rest_errors.NO_RESOURCE}",
    ):
        yield f"\n{textwrap.fill(text, 100)}"
    yield ""


def _acts(kind: ErrorKind, remedy: str) -> str:
    return f"{kind.value[0].upper()}{kind.value[1:]}. {remedy}"


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterable[str]:
    yield from _head(names)
    yield from map(_row, rows)


def _head(names: Sequence[str]) -> Iterable[str]:
    yield _row(names)
    yield "|" + "---|" * len(names)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |".replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
