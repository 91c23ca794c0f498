"""What a login yields: the three things every RPC carries. And how an org id is read from them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_ID_URL = re.compile(
    r"/id/(?P<org>[0-9A-Za-z]{18}|[0-9A-Za-z]{15})/(?P<user>[0-9A-Za-z]{15,18})/?$"
)
_ORG_ID = re.compile(r"00D[0-9A-Za-z]{12}([0-9A-Z]{3})?")
_SUFFIX_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """:param org_id: 18 characters; the `tenantid` header. :param user_id: empty where the login did not tell."""

    token: str = field(repr=False)
    instance_url: str
    org_id: str
    user_id: str = ""


def ids_from_url(id_url: str) -> tuple[str, str]:
    """Org id (18 characters) and user id of a token answer's `id`, `https://…/id/<org>/<user>`; empty where unreadable."""
    match = _ID_URL.search(id_url)
    return (long_id(match["org"]), match["user"]) if match else ("", "")


def org_id_from_token(token: str) -> str:
    """The org id (18 characters) before the `!` of a classic access token; empty for tokens of another make."""
    prefix, mark, _ = token.partition("!")
    return long_id(prefix) if mark and _ORG_ID.fullmatch(prefix) else ""


def is_org_id(text: str) -> bool:
    return _ORG_ID.fullmatch(text) is not None


def long_id(short: str) -> str:
    """The 18-character form of a 15-character id: for each five characters, one letter that says which are upper-case."""
    if len(short) != 15:
        return short
    chunks = (short[0:5], short[5:10], short[10:15])
    return short + "".join(
        _SUFFIX_LETTERS[sum(1 << place for place, char in enumerate(chunk) if "A" <= char <= "Z")]
        for chunk in chunks
    )
