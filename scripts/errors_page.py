"""Makes docs/reference/errors.md from the tables that the client itself goes by: `python -m scripts.errors_page`."""

from __future__ import annotations

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

This page is made from the tables that the client goes by: `make docs-errors`.

Every message says what was tried, what Salesforce said, its code, the rpc id (which Salesforce's support asks for), and what to do. The codes of
the Pub/Sub API stand here without their common beginning `{PREFIX}`. A code decides, not the gRPC status beside it.

"Tried again" is about the client, within a task; a task that fails with anything but "no" here is retried by Airflow as its `retries` say. With
"no" the task fails at once, whatever its `retries`: somebody has to act first. What a task had staged before an error stays, and is not paid for again. What is published is sent
again by rules of its own: [publishing](../how-to/publish.md).
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
    yield "No status of a call, and no stream ends by them. Salesforce's text is shown as it comes; there is no list of them.\n"
    yield from _table(
        ("code", "what it means"), ((f"`{code}`", means) for code, means in INSIDE_ANSWERS)
    )
    yield ""


def _without_code() -> Iterable[str]:
    yield "## Without a code\n"
    yield "The wire, a proxy, or something else than the service answered. What gRPC says is looked at first, then the status.\n"
    found = [
        *((f"... {part} ...", meaning) for part, meaning in BY_DETAILS),
        *((f"`{status}`", meaning) for status, meaning in BY_STATUS.items()),
    ]
    rows = ((what, _acts(one.kind, one.remedy), RETRIED[one.kind]) for what, one in found)
    yield from _table(("message or status", "who acts, and how", "tried again"), rows)
    yield "\nEvery other status without a code is taken for the wire's: tried again, with growing pauses.\n"


def _logins() -> Iterable[str]:
    yield "## Logging in: OAuth\n"
    yield "HTTP 400 with `error` and `error_description`. Not tried again: the connection, the app or the user has to be changed.\n"
    rows = ((f"`{error}`", part, remedy) for error, part, remedy in oauth_errors.REMEDIES)
    yield from _table(("error", "description contains", "what to do"), rows)
    yield "\nHTTP 403 with `Bad_OAuth_Token` from the userinfo endpoint: the session token was refused. Give a fresh one.\n"
    yield "## Logging in: SOAP\n"
    yield "HTTP 500 with a fault. See [logging in](../how-to/log-in.md#soap) on the end of this login.\n"
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
        "Full reads, discovery and limits. A refused session (HTTP 401, `INVALID_SESSION_ID`) is renewed once. Tried again: what cannot be reached, "
        f"HTTP 5xx, and {', '.join(f'`{one}`' for one in sorted(rest_errors.PASSING))}. `REQUEST_LIMIT_EXCEEDED` means that the org's API requests of 24 hours "
        "are used up: wait. The others are not tried again:\n"
    )
    rows = ((f"`{code}`", remedy) for code, remedy in rest_errors.REMEDIES.items())
    yield from _table(("code", "what to do"), rows)
    yield (
        "\nHTTP 404 for a resource that is about no object, such as `limits` or the list of "
        f"objects: {rest_errors.NO_RESOURCE}\n"
    )


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
