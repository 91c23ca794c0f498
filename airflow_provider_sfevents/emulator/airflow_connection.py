"""The Airflow connection of type `sfevents` to an org."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator.errors import EmulatorError

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.org.org import Org
    from airflow_provider_sfevents.emulator.state.org_sessions import OrgSessions

AUTHS = ("client_credentials", "jwt_bearer", "refresh_token", "password", "soap", "session")


def connection(
    auth: str, org: Org, *, login_url: str, endpoint: str, ca_file: str, sessions: OrgSessions
) -> dict[str, Any]:
    """Build the Airflow connection to an org: `conn_type`, the standard fields and `extra`.

    :raises EmulatorError: unknown login (`auth`).
    """
    host, _, port = endpoint.rpartition(":")
    extra: dict[str, Any] = {"auth": auth, "pubsub_endpoint": host}
    extra |= {"ca_file": ca_file} if ca_file else {"plaintext": True}
    values = {
        "conn_type": "sfevents",
        "host": org.instance_url,
        "port": int(port),
        "login": org.consumer_key,
        "password": "",
    }
    match auth:
        case "client_credentials":
            values["password"] = org.consumer_secret
        case "jwt_bearer":
            values["host"] = login_url
            extra |= {"username": org.username, "private_key": org.private_key_pem}
        case "refresh_token":
            values |= {"host": login_url, "password": org.consumer_secret}
            extra["refresh_token"] = org.refresh_token
        case "password":
            values |= {"host": login_url, "password": org.consumer_secret}
            extra |= {"username": org.username, "user_password": org.password}
            extra["security_token"] = org.security_token
        case "soap":
            values |= {"host": login_url, "login": org.username, "password": org.password}
            extra["security_token"] = org.security_token
        case "session":
            values["login"] = ""
            extra |= _session(org, sessions)
        case _:
            raise EmulatorError(f"auth {auth!r} is not one of {', '.join(AUTHS)}")
    return {**values, "extra": extra}


def _session(org: Org, sessions: OrgSessions) -> dict[str, str]:
    session = sessions.issue(
        org_id=org.org_id,
        instance_url=org.instance_url,
        user_id=org.user_id,
        username=org.username,
        client="",
    )
    return {
        "session_token": session.token,
        "instance_url": org.instance_url,
        "org_id": org.org_id,
    }
