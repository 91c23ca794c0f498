"""How Airflow is told about an org: the connection of type `sfevents`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator.errors import EmulatorError

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.org import Org
    from airflow_provider_sfevents.emulator.sessions import Sessions

AUTHS = ("client_credentials", "jwt_bearer", "session")


def connection(
    auth: str, org: Org, *, login_url: str, endpoint: str, ca_file: str, sessions: Sessions
) -> dict[str, Any]:
    """`conn_type`, `host`, `login`, `password` and `extra` of a connection to an org.

    :raises EmulatorError: for a way to log in that does not exist.
    """
    extra: dict[str, Any] = {"auth": auth, "pubsub_endpoint": endpoint}
    extra |= {"ca_file": ca_file} if ca_file else {"plaintext": True}
    values = {
        "conn_type": "sfevents",
        "host": org.instance_url,
        "login": org.consumer_key,
        "password": "",
    }
    if auth == "client_credentials":
        values["password"] = org.consumer_secret
    elif auth == "jwt_bearer":
        values["host"] = login_url
        extra |= {"username": org.username, "private_key": org.private_key_pem}
    elif auth == "session":
        values["login"] = ""
        session = sessions.issue(
            org_id=org.org_id,
            instance_url=org.instance_url,
            user_id=org.user_id,
            username=org.username,
            client="",
        )
        extra |= {
            "session_token": session.token,
            "instance_url": org.instance_url,
            "org_id": org.org_id,
        }
    else:
        raise EmulatorError(f"auth {auth!r} is none of {', '.join(AUTHS)}")
    return {**values, "extra": extra}
