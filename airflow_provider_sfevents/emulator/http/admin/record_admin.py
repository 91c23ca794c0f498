"""Admin API of an org's records: read and change them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.routing import Route

from airflow_provider_sfevents.emulator import salesforce_ids
from airflow_provider_sfevents.emulator.http.admin.admin_answers import Facts, answering
from airflow_provider_sfevents.emulator.org.record_transaction import Transaction
from airflow_provider_sfevents.emulator.org.records.change_encoding import TransactionStamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_sfevents.emulator.org.org import Org


class RecordAdmin:
    """Admin routes of one org."""

    def __init__(self, org: Org) -> None:
        self._org = org

    def routes(self) -> list[Route]:
        return [
            Route("/emulator/changes", answering(self._change), methods=["POST"]),
            Route("/emulator/records", answering(self._records), methods=["GET"]),
            Route("/emulator/conversions", answering(self._convert), methods=["POST"]),
        ]

    def _records(self, asked: Facts) -> Any:
        deleted = str(asked.get("deleted", "")).lower() == "true"
        return {"records": self._org.records(asked["entity"], deleted=deleted)}

    def _convert(self, asked: Facts) -> Any:
        self._org.convert_field(
            asked["entity"], asked["field"], asked["type"], gap=bool(asked.get("gap"))
        )
        return {"done": True}

    def _change(self, asked: Facts) -> Any:
        """Change or create records of the org; for other records publish only the event."""
        org, entity, change_type = self._org, asked["entity"], asked["change_type"]
        record_ids, fields = list(asked.get("record_ids") or ()), asked.get("fields") or {}
        gap, kind = change_type.startswith("GAP_"), change_type.removeprefix("GAP_")
        if change_type == "GAP_OVERFLOW":
            return _published([], org.gap(entity, change_type))
        with org.database.lock:
            if not self._is_real(kind, record_ids) or (gap and not fields and kind == "UPDATE"):
                return _published(record_ids, org.change(entity, change_type, record_ids, fields))
            changes = Transaction(org.database)
            changed = _ask(changes, kind, entity, record_ids, fields, gap=gap)
            return _published(changed, *changes.commit(TransactionStamp()))

    def _is_real(self, kind: str, record_ids: list[str]) -> bool:
        """True if the change applies to stored records, not to an event alone."""
        if kind == "CREATE":
            return not record_ids
        objects = self._org.database.objects
        return bool(record_ids) and all(
            salesforce_ids.is_id(one)
            and any(
                self._org.database.record(sobject.name, salesforce_ids.long_id(one[:15]))
                for sobject in objects
            )
            for one in record_ids
        )


def _ask(
    changes: Transaction,
    kind: str,
    entity: str,
    record_ids: Sequence[str],
    fields: dict[str, Any],
    *,
    gap: bool,
) -> list[str]:
    if kind == "CREATE":
        return [changes.create(entity, fields, gap=gap)]
    for record_id in record_ids:
        match kind:
            case "DELETE":
                changes.delete(record_id, gap=gap)
            case "UNDELETE":
                changes.undelete(record_id, gap=gap)
            case _:
                changes.update(record_id, fields, gap=gap)
    return list(record_ids)


def _published(record_ids: Sequence[str], *replay_ids: bytes) -> dict[str, Any]:
    return {"record_ids": list(record_ids), "replay_ids": [one.hex() for one in replay_ids]}
