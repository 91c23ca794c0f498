"""A small org: its records are the truth, and its bus reports them as Salesforce documents it.

This module does not use the package, so that no misunderstanding is on both sides.
"""

from __future__ import annotations

import copy
import difflib
import hashlib
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

Records = dict[str, dict[str, dict[str, Any]]]
"""Truth: entity, record id, field, value.

A compound is a dict of its members that are not null; a field that is null is missing.
"""

PREFIXES = {"Account": "001", "Contact": "003"}
NO_RECORD = "000000000000000AAA"
BEGAN = datetime(2026, 11, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Told:
    """One event of the bus.

    :param says: content of the event, with names in place of bitmaps.
    :param transaction: number of the event's transaction, from 0.
    :param spoiled: the event has a diff that cannot be applied.
    :param records: records of the org after this event.
    """

    says: dict[str, Any]
    transaction: int
    committed: datetime
    records: Records
    spoiled: bool = False


@dataclass
class Org:
    """An org that applies a history and publishes its events."""

    records: Records = field(default_factory=lambda: {"Account": {}, "Contact": {}})
    bin: Records = field(default_factory=lambda: {"Account": {}, "Contact": {}})
    bus: list[Told] = field(default_factory=list)
    now: datetime = BEGAN
    transaction: int = -1
    _made: int = 0
    _sequence: int = 0
    _overflown: str = ""

    def begin(self, seconds: float) -> None:
        """Begin a transaction, so many seconds after the previous one."""
        self.now += timedelta(seconds=seconds)
        self.transaction += 1
        self._sequence = 0
        self._overflown = ""

    def commit(self, *, early_overflow: bool = False) -> None:
        """Commit the transaction; after an overflow, publish the overflow event."""
        if self._overflown:
            self._tell(self._overflown, "GAP_OVERFLOW", [NO_RECORD])
            if early_overflow and len(self.bus) > 1:
                self._swap_last()

    def overflow(self, entity: str) -> None:
        """Publish no more changes of the entity one by one, until the end of the transaction."""
        self._overflown = self._overflown or entity

    def create(self, entity: str, values: dict[str, Any], how: str) -> None:
        self._made += 1
        record_id = _long(f"{PREFIXES[entity]}{self._made:012d}")
        self.records[entity][record_id] = _clean(values)
        self._tell_whole(entity, "CREATE", record_id, how)

    def undelete(self, entity: str, record_id: str, how: str) -> None:
        self.records[entity][record_id] = self.bin[entity].pop(record_id)
        self._tell_whole(entity, "UNDELETE", record_id, how)

    def delete(self, entity: str, ids: list[str], how: str) -> None:
        for record_id in ids:
            self.bin[entity][record_id] = self.records[entity].pop(record_id)
        self._tell(entity, _called("DELETE", how), ids, body={"Industry": "enriched"})

    def update(self, entity: str, ids: list[str], changes: dict[str, Any], how: str) -> None:
        """Change fields, or members of compounds named `Parent.Member`, of several records alike.

        :param how: `told`, `gap`, `unknown`, `broken` (cannot be decoded); `diff`, `crlf` and
            `bad_diff` send texts as diffs.
        """
        before = dict(self.records[entity])
        for record_id in ids:
            record = dict(self.records[entity][record_id])
            for name, value in changes.items():
                _change(record, name, value)
            self.records[entity][record_id] = _clean(record)
        diffs: dict[str, str] = {}
        if "diff" in how:
            ids, changes, diffs = self._as_diff(entity, ids[0], changes, before, how)
        body = _body(changes, self.records[entity][ids[0]]) | diffs
        self._tell(
            entity,
            _called("UPDATE", how),
            ids,
            spoiled=how == "bad_diff" and bool(diffs),
            body=body | {"Rating": "enriched"} if "Rating" not in changes else body,
            changed=[name for name in changes if "gap" not in how],
            nulled=[name for name, value in changes.items() if value is None and "gap" not in how],
            diffs=list(diffs),
            broken=how == "broken",
        )

    def convert(self, entity: str, name: str, sets: dict[str, Any], how: str) -> None:
        """Null one field of all records at once, and set others.

        :param how: `told` (a wildcard), `silent` (a wildcard without fields), `gap` or `no_record`.
        """
        for record_id, record in self.records[entity].items():
            kept = {of: one for of, one in record.items() if of != name}
            self.records[entity][record_id] = kept | sets
        is_told = how == "told"
        self._tell(
            entity,
            "GAP_UPDATE" if how == "gap" else "UPDATE",
            [f"{PREFIXES[entity]}*" if how != "no_record" else NO_RECORD],
            body=sets if is_told else {},
            changed=[name, *sets] if is_told else [],
            nulled=[name] if is_told else [],
        )

    def _as_diff(
        self, entity: str, record_id: str, changes: dict[str, Any], before: Any, how: str
    ) -> tuple[list[str], dict[str, Any], dict[str, str]]:
        old = before[record_id].get("Description")
        new = self.records[entity][record_id].get("Description")
        if old is None or new is None or "Description" not in changes:
            return [record_id], changes, {}
        base = old + "\nnot the base" if how == "bad_diff" else old
        return [record_id], changes, {"Description": _diff(base, new, wrong=how == "bad_diff")}

    def _tell_whole(self, entity: str, change_type: str, record_id: str, how: str) -> None:
        body = copy.deepcopy(self.records[entity][record_id])
        self._tell(
            entity, _called(change_type, how), [record_id], body=body, broken=how == "broken"
        )

    def _tell(
        self,
        entity: str,
        change_type: str,
        ids: list[str],
        *,
        body: dict[str, Any] | None = None,
        changed: list[str] | None = None,
        nulled: list[str] | None = None,
        diffs: list[str] | None = None,
        broken: bool = False,
        spoiled: bool = False,
    ) -> None:
        if entity == self._overflown and change_type != "GAP_OVERFLOW":
            return
        self._sequence += 1
        says = {
            "entityName": entity,
            "recordIds": ids,
            "changeType": change_type,
            "transactionKey": f"transaction-{self.transaction}",
            "sequenceNumber": self._sequence,
            "changedFields": changed or [],
            "nulledFields": nulled or [],
            "diffFields": diffs or [],
            "broken": broken,
            "body": {} if change_type.startswith("GAP_") else body or {},
        }
        self.bus.append(
            Told(
                says=says,
                transaction=self.transaction,
                committed=self.now,
                spoiled=spoiled,
                # A changed record is a new object, so that earlier events keep the old one.
                records={of: dict(records) for of, records in self.records.items()},
            )
        )

    def _swap_last(self) -> None:
        """Move the overflow event before the transaction's last normal event."""
        one, overflow = self.bus[-2:]
        if one.transaction == overflow.transaction:
            self.bus[-2:] = [
                replace(one, says=overflow.says, spoiled=False),
                replace(overflow, says=one.says, spoiled=one.spoiled),
            ]


def _called(change_type: str, how: str) -> str:
    return {"gap": f"GAP_{change_type}", "unknown": "SNAPSHOT"}.get(how, change_type)


def _body(changes: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for name, value in changes.items():
        parent, dot, member = name.partition(".")
        if dot and isinstance(record.get(parent), dict):
            body.setdefault(parent, {})[member] = value
        elif not dot:
            body[name] = copy.deepcopy(value)
    return body


def _change(record: dict[str, Any], name: str, value: Any) -> None:
    parent, dot, member = name.partition(".")
    if not dot:
        record[name] = copy.deepcopy(value)
        return
    compound = record.get(parent)
    if isinstance(compound, str) and value is None:
        return  # a company's name has no first name
    record[parent] = {**(compound if isinstance(compound, dict) else {}), member: value}


def _clean(record: dict[str, Any]) -> dict[str, Any]:
    """Remove nulls, and compounds without members."""
    kept: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, dict):
            inner = {member: of for member, of in value.items() if of is not None}
            if inner:
                kept[name] = inner
        elif value is not None:
            kept[name] = value
    return kept


def _diff(old: str, new: str, *, wrong: bool) -> str:
    """Diff as documented: line by line, with the hash of the new value in the header.

    Every kind of line end counts.
    """
    old_lines, new_lines = (text.replace("\r\n", "\n").split("\n") for text in (old, new))
    told = hashlib.sha256((new + "?" if wrong else new).encode()).hexdigest()
    hunks = list(difflib.unified_diff(old_lines, new_lines, lineterm="", n=1))[2:]
    return "\n".join(["--- ", f"+++ {told}", *hunks]) + "\n"


def _long(short: str) -> str:
    suffix = ""
    for at in (0, 5, 10):
        bits = "".join("1" if one.isupper() else "0" for one in reversed(short[at : at + 5]))
        suffix += "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"[int(bits, 2)]
    return short + suffix
