"""Refusals of an org: Salesforce's error code, HTTP status and fields.

Codes, texts and statuses: REST API Developer Guide, "Status Codes and Error Responses", and answers
seen in public issues.
"""

from __future__ import annotations

from typing import Any

from airflow_provider_sfevents.emulator.errors import EmulatorError

_STATUS = {
    "NOT_FOUND": 404,
    "ENTITY_IS_DELETED": 404,
    "INVALID_SESSION_ID": 401,
    "INSUFFICIENT_ACCESS": 403,
    "REQUEST_LIMIT_EXCEEDED": 403,
    "SERVER_UNAVAILABLE": 503,
}


class RecordRefusedError(EmulatorError):
    """Refusal of a record, a query or a job.

    :param code: error code, such as `INVALID_FIELD`.
    :param fields: names of the fields concerned; None if the answer has no list of fields.
    :param about: subject for the emulator's user; clients do not receive it.
    """

    def __init__(
        self, code: str, message: str, fields: tuple[str, ...] | None = None, *, about: str = ""
    ) -> None:
        super().__init__(f"{code}: {message}{f' ({about})' if about else ''}")
        self.code = code
        self.message = message
        self.fields = fields

    @property
    def status(self) -> int:
        """HTTP status of the answer."""
        return _STATUS.get(self.code, 400)

    def to_json(self) -> dict[str, Any]:
        """Element of the answer's list."""
        body: dict[str, Any] = {"message": self.message, "errorCode": self.code}
        return body if self.fields is None else {**body, "fields": list(self.fields)}


def not_found(about: str = "") -> RecordRefusedError:
    return RecordRefusedError("NOT_FOUND", "The requested resource does not exist", about=about)


def no_such_column(name: str, entity: str) -> RecordRefusedError:
    return RecordRefusedError(
        "INVALID_FIELD", f"No such column {name!r} on sobject of type {entity}"
    )
