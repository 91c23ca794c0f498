"""Logins over plain HTTP from an Airflow connection: grants, userinfo and SOAP."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

import jwt

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx

JWT_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
JWT_SECONDS = 180
_SOAP = (
    '<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:urn="urn:partner.soap.sforce.com">'
    "<soapenv:Body><urn:login><urn:username>{username}</urn:username><urn:password>{password}</urn:password></urn:login>"
    "</soapenv:Body></soapenv:Envelope>"
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Door:
    """Host and secrets of a login.

    :param host: URL of the login host, or of the org's My Domain.
    :param values: `login`, `password` and the connection's extras.
    """

    host: str
    auth: str
    values: Mapping[str, str]

    @classmethod
    def of(cls, connection: Mapping[str, Any]) -> Door:
        """Build from a connection in the form of `airflow connections add --conn-json`."""
        extra = dict(connection.get("extra") or {})
        values = {name: str(value) for name, value in extra.items()}
        for name in ("login", "password"):
            values[name] = str(connection.get(name) or "")
        host = str(connection.get("host") or "https://login.salesforce.com")
        url = host if "://" in host else f"https://{host}"
        return cls(
            host=url.rstrip("/"),
            auth=str(extra.get("auth", "client_credentials")),
            values=values,
        )

    def form(self) -> dict[str, str]:
        """Body of the token request.

        :raises ValueError: for a login that is no grant.
        """
        value = self.values
        client = {"client_id": value["login"], "client_secret": value["password"]}
        match self.auth:
            case "client_credentials":
                return {"grant_type": "client_credentials", **client}
            case "jwt_bearer":
                return {"grant_type": JWT_GRANT, "assertion": self.assertion()}
            case "refresh_token":
                grant = {"grant_type": "refresh_token", "refresh_token": value["refresh_token"]}
                return {**grant, **{k: v for k, v in client.items() if v}}
            case "password":
                password = value["user_password"] + value.get("security_token", "")
                grant = {"grant_type": "password", "username": value["username"]}
                return {**grant, "password": password, **client}
            case _:
                raise ValueError(f"{self.auth} is no grant of the token endpoint")

    def assertion(self, **changed: Any) -> str:
        """JWT for the bearer flow."""
        claims = {
            "iss": self.values["login"],
            "sub": self.values["username"],
            "aud": self.values.get("audience") or self.host,
            "exp": int(time.time()) + JWT_SECONDS,
        }
        key = self.values.get("private_key") or ""
        return jwt.encode({**claims, **changed}, key, algorithm="RS256")

    def headers(self, http: httpx.Client) -> dict[str, str]:
        """Log in and return the three headers."""
        if self.auth == "session":
            org_id = self.values.get("org_id") or self.values["session_token"].partition("!")[0]
            return _headers(self.values["session_token"], self.values["instance_url"], org_id)
        if self.auth == "soap":
            return self._soap_headers(http)
        answer = token(http, self.host, self.form())
        assert answer.status_code == 200, answer.text
        body = answer.json()
        return _headers(
            body["access_token"], body["instance_url"], body["id"].rstrip("/").split("/")[-2]
        )

    def _soap_headers(self, http: httpx.Client) -> dict[str, str]:
        from xml.etree import ElementTree as ET

        password = self.values["password"] + self.values.get("security_token", "")
        version = self.values.get("api_version") or "57.0"
        answer = soap_login(http, self.host, self.values["login"], password, version=version)
        assert answer.status_code == 200, answer.text
        found = {
            node.tag.rpartition("}")[2]: node.text or ""
            for node in ET.fromstring(answer.text).iter()  # noqa: S314
        }
        instance = "/".join(found["serverUrl"].split("/")[:3])
        return _headers(found["sessionId"], instance, found["organizationId"])


def token(http: httpx.Client, host: str, form: Mapping[str, str]) -> httpx.Response:
    """Call the token endpoint."""
    return http.post(f"{host}/services/oauth2/token", data=dict(form))


def soap_login(
    http: httpx.Client, host: str, username: str, password: str, *, version: str = "57.0"
) -> httpx.Response:
    """Call SOAP login()."""
    body = _SOAP.format(username=escape(username), password=escape(password))
    headers = {"content-type": "text/xml", "SOAPAction": "Login"}
    return http.post(f"{host}/services/Soap/u/{version}/", content=body, headers=headers)


def _headers(access_token: str, instance_url: str, org_id: str) -> dict[str, str]:
    return {"accesstoken": access_token, "instanceurl": instance_url, "tenantid": org_id}
