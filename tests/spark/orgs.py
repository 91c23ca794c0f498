"""Change events of a small org, staged as the fetch stages them, and the tables that they make."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.spark.changes import tables
from airflow_provider_sfevents.spark.current_state.apply_batch import (
    flush_transaction,
    land_and_apply,
)
from airflow_provider_sfevents.spark.current_state.current_state_options import (
    ApplyOptions,
    CurrentStateOptions,
)
from airflow_provider_sfevents.spark.current_state.frames import collected
from airflow_provider_sfevents.spark.current_state.state_tables import (
    StateTables,
    open_state,
)
from airflow_provider_sfevents.spark.landing.landed_batch import FEW_BYTES
from airflow_provider_sfevents.spark.landing.landing_options import LandingOptions
from airflow_provider_sfevents.staging.manifest import Manifest
from tests.harness.step_hooks import no_step, on_steps
from tests.spark.conftest import FIRST_DAY_MS, Staging
from tests.spark.event_schemas import SCHEMAS

if TYPE_CHECKING:
    from tests.harness.step_hooks import OnStep

A = "001000000000001AAA"
B = "001000000000002AAA"
_FIELDS = ("ChangeEventHeader", "Name", "Industry", "BillingAddress", "Employees")


def _string(name: str, doc: str = "Data:Text") -> dict[str, Any]:
    return {"name": name, "type": ["null", "string"], "doc": doc, "default": None}


_STRINGS = {"type": "array", "items": "string"}
_TYPES = (
    "CREATE",
    "UPDATE",
    "DELETE",
    "UNDELETE",
    "GAP_CREATE",
    "GAP_UPDATE",
    "GAP_DELETE",
    "GAP_UNDELETE",
    "GAP_OVERFLOW",
    "SNAPSHOT",
)
_ADDRESS = {
    "type": "record",
    "name": "Address",
    "fields": [_string("Street"), _string("City")],
}
_PERSON = {
    "type": "record",
    "name": "Switchable_PersonName",
    "fields": [_string("FirstName"), _string("LastName")],
}


def _change_event(name: str, *more: dict[str, Any]) -> dict[str, Any]:
    header = {
        "type": "record",
        "name": "ChangeEventHeader",
        "fields": [
            {"name": "entityName", "type": "string"},
            {"name": "recordIds", "type": _STRINGS},
            {
                "name": "changeType",
                "type": {"type": "enum", "name": "ChangeType", "symbols": list(_TYPES)},
            },
            {"name": "transactionKey", "type": "string"},
            {"name": "sequenceNumber", "type": "int"},
            {"name": "commitTimestamp", "type": "long", "doc": "Data:DateTime"},
            {"name": "nulledFields", "type": _STRINGS},
            {"name": "diffFields", "type": _STRINGS},
            {"name": "changedFields", "type": _STRINGS},
        ],
    }
    return {
        "type": "record",
        "name": name,
        "namespace": "com.sforce.eventbus",
        "fields": [
            {"name": "ChangeEventHeader", "type": header},
            {
                "name": "Name",
                "type": ["null", "string", _PERSON],
                "doc": "Data:Switchable_PersonName",
                "default": None,
            },
            _string("Industry"),
            {
                "name": "BillingAddress",
                "type": ["null", _ADDRESS],
                "doc": "Data:Address",
                "default": None,
            },
            {"name": "Employees", "type": ["null", "int"], "doc": "Data:Integer", "default": None},
            *more,
        ],
    }


SCHEMAS["org_account"] = _change_event("AccountChangeEvent")
SCHEMAS["org_account2"] = _change_event(
    "AccountChangeEvent",
    {"name": "Extra__c", "type": ["null", "double"], "doc": "Data:Double", "default": None},
)
SCHEMAS["org_contact"] = _change_event("ContactChangeEvent")


def bitmap(*names: str) -> list[str]:
    """Fields as the service names them, of the first schema of these."""
    bits = sum(1 << _FIELDS.index(name) for name in names if "." not in name)
    found = [f"0x{bits:02X}"] if bits else []
    members = {"BillingAddress": ("Street", "City"), "Name": ("FirstName", "LastName")}
    for name in names:
        parent, dot, member = name.partition(".")
        if dot:
            found.append(f"{_FIELDS.index(parent)}-0x{1 << members[parent].index(member):02X}")
    return found


def event(
    staging: Staging,
    number: int,
    change_type: str = "UPDATE",
    *ids: str,
    schema: str = "org_account",
    changed: tuple[str, ...] | list[str] | None = None,
    nulled: tuple[str, ...] = (),
    key: str = "",
    **values: Any,
) -> tuple[str, bytes]:
    """Make an event that was committed so many seconds after the beginning.

    :param key: of its transaction; default: one of its own.
    """
    names = tuple(values) if changed is None and change_type == "UPDATE" else changed or ()
    header = {
        "entityName": SCHEMAS[schema]["name"].removesuffix("ChangeEvent"),
        "recordIds": list(ids or (A,)),
        "changeType": change_type,
        "transactionKey": key or f"t{number}",
        "sequenceNumber": number,
        "commitTimestamp": FIRST_DAY_MS + number * 1000,
        "nulledFields": bitmap(*nulled),
        "diffFields": [],
        "changedFields": names if isinstance(names, list) else bitmap(*names),
    }
    return staging.event(schema, ChangeEventHeader=header, **values)


def opened(spark: Any, root: str, table_format: str) -> StateTables:
    """Open the current-state tables below a root, in a session of their own."""
    return open_state(spark, CurrentStateOptions(current_state=root, table_format=table_format))


@dataclass
class CurrentState:
    """Current-state tables on this disk, and the event tables beside them.

    :param few: False: manifests say that a batch is too large for the driver.
    """

    spark: Any
    root: str
    table_format: str
    staging: Staging
    options: dict[str, Any] = field(default_factory=lambda: {"new_entities": "empty"})
    batch_number: int = 0
    end: str = "earliest"
    few: bool = True

    def stage(self, *events: tuple[str, bytes], ended_by: str = "idle_seconds", **more: Any) -> str:
        """Stage the next batch, and return the URL of its manifest."""
        self.batch_number += 1
        said = {
            "batch_number": self.batch_number,
            "start": self.end,
            "end": f"{self.batch_number:020x}",
            "ended_by": ended_by,
            "topic": "/data/ChangeEvents",
            **({} if self.few else {"bytes": FEW_BYTES + 1}),
            **more,
        }
        self.end = str(said["end"])
        return self.staging.write(events, **said)

    def apply(self, manifest: str, step: OnStep = no_step, **options: Any) -> dict[str, int]:
        order = ApplyOptions(
            manifest_url=manifest,
            current_state=self.root,
            table_format=self.table_format,
            **{**self.options, **options},
        )
        if order.flush:
            parsed = Manifest.from_json(Path(manifest).read_text(), manifest)
            with on_steps(step):
                return flush_transaction(self.spark, order, parsed)
        landing = LandingOptions(
            manifest_url=manifest, table=self.log, table_format=self.table_format
        )
        with on_steps(step):
            return dict(land_and_apply(self.spark, landing, order).applied or {})

    @property
    def log(self) -> str:
        """Root of the event tables, or their namespace where the state tables are in one."""
        return f"{self.root} log" if "/" in self.root else f"{self.root}_log"

    @cached_property
    def tables(self) -> StateTables:
        """The tables, in a session of their own."""
        return opened(self.spark, self.root, self.table_format)

    def rows(self, table: str, *columns: str) -> list[dict[str, Any]]:
        """Read a table, or the events of one role; a table that is not there has no rows."""
        state = self.tables
        is_role = table in tables.ROLES
        found = collected(
            state.set_aside(table) if is_role else state.rows(table, "none_there int")
        )
        if columns:
            found = [{name: row[name] for name in columns} for row in found]
        return sorted(found, key=str)


class JobKilledError(Exception):
    """Kills a job in a test."""


def killing(table: str) -> OnStep:
    """Kill a job right after a commit, named as in `tables.APPLY_ORDER`."""

    def step(name: str, about: str) -> None:
        if name == steps.APPLY_COMMITTED and about.split(maxsplit=1)[0] == table:
            raise JobKilledError(about)

    return step
