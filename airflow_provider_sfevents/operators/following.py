"""Tables of the records as they are: what a task says of them, checked when the DAG is parsed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.hooks.run import is_template
from airflow_provider_sfevents.spark.applying.ordering import (
    DELETIONS,
    NEW_ENTITIES,
    check_apply,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """What a task wants of the tables that equal the org.

    :param current_state: their root URL or namespace; None: change events are landed alone.
    :param deletions: what becomes of a deleted record's row: `delete` or `flag`.
    :param new_entities: what an entity is taken for whose first event comes: `unseeded` or `empty`.
    :param history: keep every state of a record.
    """

    current_state: str | None
    deletions: str = DELETIONS[0]
    new_entities: str = NEW_ENTITIES[0]
    history: bool = False

    def check(self, topic: Any, table: str | None, table_format: str, application: str) -> None:
        """Refuse what cannot work; a template is judged by the job, once it is rendered.

        :raises ConfigurationError: naming the argument, the value and what may be.
        """
        if not self.current_state:
            self._check_alone()
            return
        if application:
            raise ConfigurationError(
                f"current_state={self.current_state!r} is applied by the job of this package, and application={application!r} runs another. "
                "Leave one of the two out."
            )
        check_root(self.current_state, table_format, self.deletions, self.new_entities, topic)
        if self.current_state.rstrip("/") == (table or "").rstrip("/"):
            raise ConfigurationError(
                f"current_state and table are both {table!r}: the one is for the records, the other for the log of their events. Give each a "
                "place of its own."
            )

    def arguments(self) -> list[str]:
        """For `spark/apply.py`; those alone that say something else than its defaults. Empty where nothing is applied."""
        if not self.current_state:
            return []
        said = ["--current-state", self.current_state]
        said += ["--deletions", self.deletions] if self.deletions != DELETIONS[0] else []
        if self.new_entities != NEW_ENTITIES[0]:
            said += ["--new-entities", self.new_entities]
        return [*said, "--history"] if self.history else said

    def _check_alone(self) -> None:
        usual = Followed(current_state=self.current_state)
        if self != usual:
            raise ConfigurationError(
                "deletions, new_entities and history are about tables of records, and there is no current_state: give their root URL or "
                "namespace, or leave these out."
            )


def check_root(
    current_state: str,
    table_format: str,
    deletions: str = DELETIONS[0],
    new_entities: str = NEW_ENTITIES[0],
    topic: Any = None,
) -> None:
    """Refuse what tables of records cannot have; what a template makes of it the job checks.

    :raises ConfigurationError: naming the argument, the value and what may be.
    """
    check_apply(
        "/lake/state" if is_template(current_state) else current_state,
        table_format,
        deletions,
        new_entities,
        *([topic] if isinstance(topic, str) and not is_template(topic) else []),
    )
