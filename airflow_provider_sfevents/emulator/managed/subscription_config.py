"""Config of a managed event subscription, and the error of a refused change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator.errors import EmulatorError

if TYPE_CHECKING:
    from datetime import datetime


class ManagedRefusedError(EmulatorError):
    """A config cannot be created, changed or deleted as requested.

    :param code: Salesforce's error code, as in the Tooling API.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedConfig:
    """One ManagedEventSubscription (Tooling API, from version 60.0).

    :param id: 18 characters, beginning with `18x`.
    :param topic: topic; fixed.
    :param default_replay: `LATEST` or `EARLIEST`: start of a stream while nothing is committed.
    :param error_recovery_replay: likewise, if the committed replay id has become invalid.
    :param state: `RUN` or `STOP`.
    :param version: API version that created it.
    :param committed: replay id in hex after which the next stream starts; empty for none.
    """

    id: str
    developer_name: str
    label: str
    topic: str
    default_replay: str
    error_recovery_replay: str
    state: str
    version: str
    created_at: datetime
    committed: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "developer_name": self.developer_name,
            "label": self.label,
            "topic": self.topic,
            "default_replay": self.default_replay,
            "error_recovery_replay": self.error_recovery_replay,
            "state": self.state,
            "version": self.version,
            "created_at": self.created_at.isoformat(),
            "committed": self.committed,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> ManagedConfig:
        from datetime import datetime

        return cls(**{**value, "created_at": datetime.fromisoformat(value["created_at"])})
