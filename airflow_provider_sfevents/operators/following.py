"""Options of a task for current-state tables, checked when the DAG is parsed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.hooks.run import is_template
from airflow_provider_sfevents.spark.current_state.current_state_options import (
    DELETIONS,
    NEW_ENTITIES,
    check_apply,
)
from airflow_provider_sfevents.spark.tables.table_options import ROW_CHANGES, check_row_changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """Options of the current-state tables.

    :param current_state: their root URL or namespace; None: change events are landed only.
    :param deletions: effect of a deletion on the record's row: `delete` or `flag`.
    :param new_entities: assumption on an entity at its first event: `unseeded` or `empty`.
    :param history: keep every state of a record.
    :param row_changes: how a changed row is written: `rewrite` or `vectors`.
    """

    current_state: str | None
    deletions: str = DELETIONS[0]
    new_entities: str = NEW_ENTITIES[0]
    history: bool = False
    row_changes: str = ROW_CHANGES[0]

    def check(self, topic: Any, table: str | None, table_format: str, application: str) -> None:
        """Check the options; a template is checked by the job, after rendering.

        :raises ConfigurationError: the message names the argument, its value and its valid values.
        """
        if not self.current_state:
            self._check_alone()
            return
        if application:
            raise ConfigurationError(
                f"current_state={self.current_state!r} is applied by the job of this package, and "
                f"application={application!r} runs another one. Leave out one of the two."
            )
        check_root(self.current_state, table_format, self.deletions, self.new_entities, topic)
        check_row_changes(self.row_changes)
        if self.current_state.rstrip("/") == (table or "").rstrip("/"):
            raise ConfigurationError(
                f"current_state and table are both {table!r}: the first is for the records, the "
                "second for their events. Give each a location of its own."
            )

    def arguments(self) -> list[str]:
        """Return arguments for `spark/apply.py`, without defaults; empty if nothing is applied."""
        if not self.current_state:
            return []
        said = ["--current-state", self.current_state]
        said += ["--deletions", self.deletions] if self.deletions != DELETIONS[0] else []
        if self.new_entities != NEW_ENTITIES[0]:
            said += ["--new-entities", self.new_entities]
        if self.row_changes != ROW_CHANGES[0]:
            said += ["--row-changes", self.row_changes]
        return [*said, "--history"] if self.history else said

    def _check_alone(self) -> None:
        usual = Followed(current_state=self.current_state)
        if self != usual:
            raise ConfigurationError(
                "deletions, new_entities, history and row_changes are options of current-state "
                "tables, and there is no current_state: give their root URL or namespace, or leave "
                "these out."
            )


def check_root(
    current_state: str,
    table_format: str,
    deletions: str = DELETIONS[0],
    new_entities: str = NEW_ENTITIES[0],
    topic: Any = None,
) -> None:
    """Check the options of current-state tables; a template is checked by the job.

    :raises ConfigurationError: the message names the argument, its value and its valid values.
    """
    check_apply(
        "/lake/state" if is_template(current_state) else current_state,
        table_format,
        deletions,
        new_entities,
        *([topic] if isinstance(topic, str) and not is_template(topic) else []),
    )
