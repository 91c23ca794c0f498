"""Options of current-state tables, and of applying a batch to them. No I/O, no Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.changes.entity import NewEntities
from airflow_provider_sfevents.spark.landing.landing_options import (
    LANDING_FOLDER,
    MANIFEST,
    TYPE_CHANGE,
)
from airflow_provider_sfevents.spark.options import option, require_known
from airflow_provider_sfevents.spark.schema.evolution import ON_TYPE_CHANGE
from airflow_provider_sfevents.spark.tables import naming
from airflow_provider_sfevents.spark.tables.table_options import ROW_CHANGES

if TYPE_CHECKING:
    from airflow_provider_sfevents.spark.schema.evolution import OnTypeChange
    from airflow_provider_sfevents.spark.tables.table_options import RowChanges

Deletions = Literal["delete", "flag"]
DELETIONS: tuple[Deletions, ...] = get_args(Deletions)
NEW_ENTITIES: tuple[NewEntities, ...] = get_args(NewEntities)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentStateOptions:
    """The current-state tables, and how they are kept."""

    current_state: str = field(
        metadata=option(
            "folder of the current-state tables, one below it for each entity; or the name of a "
            "namespace in a catalog",
            "ROOT",
        )
    )
    table_format: str = field(
        metadata=option("table format: delta or iceberg", "FORMAT", flag="--format")
    )
    deletions: Deletions = field(
        default="delete",
        metadata=option("the row of a deleted record: delete it, or flag it (is_deleted)", "RULE"),
    )
    history: bool = field(
        default=False,
        metadata=option("keep every state of a record, in a table beside that of the records"),
    )
    row_changes: RowChanges = field(
        default="rewrite",
        metadata=option(
            "changed rows of new tables: rewrite the file of a row, or write vectors", "RULE"
        ),
    )
    landing_folder: str = field(default="", metadata=LANDING_FOLDER)

    def check(self) -> None:
        if self.table_format not in {naming.DELTA, naming.ICEBERG}:
            raise ConfigurationError(
                f"current_state={self.current_state!r} with table_format={self.table_format!r} is "
                "not possible: rows that change need a format that can MERGE. Give "
                "table_format='delta' or 'iceberg'."
            )
        naming.place_of(self.current_state, self.table_format, "current_state")
        naming.check_no_pattern(self.landing_folder, "landing_folder")
        require_known("deletions", self.deletions, DELETIONS)
        require_known("row_changes", self.row_changes, ROW_CHANGES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions(CurrentStateOptions):
    """A batch that has landed, and the current-state tables that it is applied to."""

    manifest_url: str = field(metadata=MANIFEST)
    new_entities: NewEntities = field(
        default="unseeded",
        metadata=option(
            "assumption on an entity at its first event: unseeded (its records wait for an entity "
            "snapshot) or empty (the org had none before)",
            "RULE",
        ),
    )
    on_type_change: OnTypeChange = field(default="new_column", metadata=TYPE_CHANGE)
    flush: bool = field(
        default=False,
        metadata=option("land nothing: apply the batch's open transaction, as no events followed"),
    )

    # Not marked as an override: some Spark clusters do not have typing_extensions.
    def check(self) -> None:  # type: ignore[explicit-override]
        # Not `super()`: a dataclass with slots is another class than the one of its body.
        CurrentStateOptions.check(self)
        require_known("new_entities", self.new_entities, NEW_ENTITIES)
        require_known("on_type_change", self.on_type_change, ON_TYPE_CHANGE)
