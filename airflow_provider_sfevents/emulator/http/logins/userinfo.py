"""User information: `/services/oauth2/userinfo`, and the identity URL of a token response.

Sources: Salesforce help, "Query for User Information" and "Identity URLs"; the Mobile SDK guide,
"Using Identity URLs".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.state.org_sessions import OrgSession

FULL_NAME = "Integration User"
_NAMES = {"given_name": "Integration", "family_name": "User"}
_PLACE = {"language": "en_US", "locale": "en_US", "utcOffset": 0}
_CHANGED = "2026-01-01T00:00:00Z"  # when the user was last changed
_SOAP = {"enterprise": "c", "metadata": "m", "partner": "u"}
_REST = {
    "rest": "",
    "sobjects": "sobjects/",
    "search": "search/",
    "query": "query/",
    "recent": "recent/",
    "tooling_rest": "tooling/",
}


def id_url(session: OrgSession) -> str:
    """Identity URL; it always names the login host of all orgs."""
    return f"https://login.salesforce.com/id/{session.org_id}/{session.user_id}"


def user_info(session: OrgSession) -> dict[str, Any]:
    """Answer of `/services/oauth2/userinfo`."""
    url = session.instance_url
    return {
        "sub": id_url(session),
        "user_id": session.user_id,
        "organization_id": session.org_id,
        "preferred_username": session.username,
        "nickname": "integration",
        "name": FULL_NAME,
        "email": session.username,
        "email_verified": True,
        **_NAMES,
        "zoneinfo": "Etc/UTC",
        "photos": _photos(url),
        "profile": f"{url}/{session.user_id}",
        "picture": f"{url}/profilephoto/005/F",
        "address": {},
        "is_salesforce_integration_user": False,
        "urls": _urls(session),
        "active": True,
        "user_type": "STANDARD",
        **_PLACE,
        "updated_at": _CHANGED,
        "is_app_installed": True,
    }


def identity(session: OrgSession) -> dict[str, Any]:
    """Answer of the identity URL."""
    return {
        "id": id_url(session),
        "asserted_user": True,
        "user_id": session.user_id,
        "organization_id": session.org_id,
        "username": session.username,
        "nick_name": "integration",
        "display_name": FULL_NAME,
        "email": session.username,
        "email_verified": True,
        "first_name": _NAMES["given_name"],
        "last_name": _NAMES["family_name"],
        "timezone": "Etc/UTC",
        "photos": _photos(session.instance_url),
        "status": {"created_date": None, "body": None},
        "urls": _urls(session),
        "active": True,
        "user_type": "STANDARD",
        **_PLACE,
        "last_modified_date": _CHANGED,
        "is_app_installed": True,
    }


def _photos(url: str) -> dict[str, str]:
    return {"picture": f"{url}/profilephoto/005/F", "thumbnail": f"{url}/profilephoto/005/T"}


def _urls(session: OrgSession) -> dict[str, str]:
    """URLs of the APIs, with a literal `{version}`."""
    url, org = session.instance_url, session.org_id[:15]
    return {
        **{
            name: f"{url}/services/Soap/{letter}/{{version}}/{org}"
            for name, letter in _SOAP.items()
        },
        **{name: f"{url}/services/data/v{{version}}/{path}" for name, path in _REST.items()},
        "profile": f"{url}/{session.user_id}",
        "custom_domain": url,
    }
