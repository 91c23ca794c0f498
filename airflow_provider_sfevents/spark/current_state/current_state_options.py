"""What may be asked of an apply: checked when a DAG is parsed, and again by the job. No I/O, no Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.changes.plan import NewEntities
from airflow_provider_sfevents.spark.tables import naming

if TYPE_CHECKING:
    from airflow_provider_sfevents.spark.schema.evolution import OnTypeChange
    from airflow_provider_sfevents.spark.tables.table_options import RowChanges

Deletions = Literal["delete", "flag"]
DELETIONS: tuple[Deletions, ...] = get_args(Deletions)
NEW_ENTITIES: tuple[NewEntities, ...] = get_args(NewEntities)
_TOPICS = "/data/"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOrder:
    """What to apply, and to which tables.

    :param current_state: root URL of the current-state tables, or a namespace's name (`tables.naming`).
    :param table_format: `delta` or `iceberg`.
    :param deletions: what becomes of a deleted record's row: `delete` or `flag` (`is_deleted`).
    :param new_entities: what an entity is taken for whose first event comes: `unseeded` or `empty`.
    :param history: keep a table of all states too, with the times from which and until which they held.
    :param settle: no new events: silence came after the batch, which has been applied; release what is held.
    :param landing_folder: URL of the folder for files on their way and columns' types. Default: the root, or the namespace's location.
    :param on_type_change: as of a landing.
    :param row_changes: how a changed row gets into a table that is made (`table_options.state_options`).
    """

    manifest_url: str
    current_state: str
    table_format: str
    deletions: Deletions = "delete"
    new_entities: NewEntities = "unseeded"
    history: bool = False
    settle: bool = False
    landing_folder: str = ""
    on_type_change: OnTypeChange = "new_column"
    row_changes: RowChanges = "rewrite"


def check_apply(
    current_state: str, table_format: str, deletions: str, new_entities: str, topic: str = _TOPICS
) -> None:
    """Parameters as of `ApplyOrder`.

    :param topic: that is read, where it is known.
    :raises ConfigurationError: one of them cannot work; the message says what can.
    """
    if table_format not in {naming.DELTA, naming.ICEBERG}:
        raise ConfigurationError(
            f"current_state={current_state!r} with table_format={table_format!r} cannot be: rows that change need a format that can MERGE. "
            "Give table_format='delta' or 'iceberg'."
        )
    naming.place_of(current_state, table_format)
    if deletions not in DELETIONS:
        raise ConfigurationError(
            f"deletions={deletions!r} is not known; give {' or '.join(DELETIONS)}."
        )
    if new_entities not in NEW_ENTITIES:
        raise ConfigurationError(
            f"new_entities={new_entities!r} is not known; give {' or '.join(NEW_ENTITIES)}."
        )
    if not topic.startswith(_TOPICS):
        raise ConfigurationError(
            f"current_state={current_state!r} with topic={topic!r} cannot be: only change events ({_TOPICS}...) tell what became of records. "
            "Leave current_state out, or read a change event topic."
        )
