"""An org of the emulator: identity, URL and the verbs of a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from airflow_provider_sfevents.emulator.org.org_verbs import OrgParts, OrgVerbs

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.bus.event_bus import Bus
    from airflow_provider_sfevents.emulator.state.org_identity import Identity


class Org(OrgVerbs):
    """An org with its own bus; created by the emulator.

    :param instance_url: URL of its My Domain.
    """

    def __init__(self, *, parts: OrgParts, instance_url: str) -> None:
        self.instance_url = instance_url
        self.parts = parts

    @override
    def __repr__(self) -> str:
        return f"<Org {self.org_id} at {self.instance_url}>"

    @property
    @override
    def _parts(self) -> OrgParts:
        return self.parts

    @property
    def identity(self) -> Identity:
        return self.parts.identity

    @property
    def bus(self) -> Bus:
        return self.parts.bus

    @property
    def org_id(self) -> str:
        """Id of the org, 18 characters."""
        return self.identity.org_id

    @property
    def user_id(self) -> str:
        return self.identity.user_id

    @property
    def username(self) -> str:
        return self.identity.username

    @property
    def consumer_key(self) -> str:
        return self.identity.app.consumer_key

    @property
    def consumer_secret(self) -> str:
        return self.identity.app.consumer_secret

    @property
    def password(self) -> str:
        """Password of its user; logins append the security token."""
        return self.identity.password

    @property
    def security_token(self) -> str:
        return self.identity.security_token

    @property
    def refresh_token(self) -> str:
        """Refresh token of the app for its user; valid until `revoke(org.refresh_token)`."""
        return self.identity.app.refresh_token

    @property
    def private_key_pem(self) -> str:
        """Private key of the app's certificate, for the JWT bearer flow."""
        return self.identity.app.keys.private_key_pem
