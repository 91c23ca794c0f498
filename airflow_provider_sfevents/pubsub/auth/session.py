"""Session: the headers that a login yields for every RPC, and the ids of org and user."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_sfevents.pubsub.auth.secret import Secret

_ID_URL = re.compile(r"/id/(?P<org>[0-9A-Za-z]+)/(?P<user>[0-9A-Za-z]+)/?$")
_ORG_ID = re.compile(r"00D[0-9A-Za-z]{12}([0-9A-Z]{3})?")
_USER_ID = re.compile(r"005[0-9A-Za-z]{12}([0-9A-Z]{3})?")
_SUFFIX_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Token of a login and the org that it is valid for.

    :param org_id: 18 characters; the `tenantid` header.
    :param user_id: empty if not known.
    :param scopes: OAuth scopes that the login's answer names; empty if it names none.
    """

    token: Secret
    instance_url: str
    org_id: str
    user_id: str = ""
    scopes: frozenset[str] = frozenset()


def ids_from_url(id_url: str) -> tuple[str, str]:
    """Ids of org and user in a token answer's `id`, `https://…/id/<org>/<user>`.

    Otherwise empty.
    """
    match = _ID_URL.search(id_url)
    return (org_id_of(match["org"]), user_id_of(match["user"])) if match else ("", "")


def org_id_from_token(token: Secret) -> str:
    """The org id before the `!` of a classic access token; empty for tokens of another make."""
    prefix, mark, _ = token.reveal().partition("!")
    return org_id_of(prefix) if mark else ""


def org_id_of(text: str) -> str:
    """An org id with 18 characters; empty if the text is no org id."""
    return long_id(text) if _ORG_ID.fullmatch(text) else ""


def user_id_of(text: str) -> str:
    """A user's id with 18 characters; empty if the text is no such id."""
    return long_id(text) if _USER_ID.fullmatch(text) else ""


def long_id(short: str) -> str:
    """The 18-character form of a 15-character id.

    For each five characters, one letter encodes which are upper-case.
    """
    if len(short) != 15:
        return short
    chunks = (short[0:5], short[5:10], short[10:15])
    return short + "".join(
        _SUFFIX_LETTERS[sum(1 << bit for bit, char in enumerate(chunk) if "A" <= char <= "Z")]
        for chunk in chunks
    )
