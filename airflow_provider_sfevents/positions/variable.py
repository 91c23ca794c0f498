"""A position in an Airflow Variable."""

from __future__ import annotations

from airflow.sdk import Variable

from airflow_provider_sfevents.exceptions import TransportError
from airflow_provider_sfevents.positions.record_text import Whose, variable_key


class VariableStore:
    """The default store: visible and editable in Airflow's UI.

    `Variable.get` answers "not there" even if the API server does not answer (Airflow 3.3: its
    `ExecutionAPISecretsBackend` turns every error but a refusal into `None`). It reads environment
    and secrets backends before the database, while `Variable.set` always writes the database. So a
    missing value is looked up again among `Variable.keys`, which raises if it cannot know; and a
    written value is read back (`stores.write`).
    """

    def __init__(self, consumer: str, topic: str) -> None:
        self._key = variable_key(consumer, topic)
        self._topic = topic
        self.whose = Whose(consumer=consumer, topic=topic)
        self.where = f"Variable {self._key!r}"
        self.advice = (
            "Another value is read in its place: remove the environment variable "
            f"AIRFLOW_VAR_{self._key.upper()} from the workers, or the entry {self._key!r} from "
            "the secrets backend; or choose another `position_store`."
        )

    def get(self) -> str | None:
        try:
            record = Variable.get(self._key, default=None)
            there = record is not None or self._key in list(Variable.keys(prefix=self._key))
            if there and record is None:  # another task may have begun it in between
                record = Variable.get(self._key, default=None)
        except Exception as error:
            raise TransportError(
                f"{self.where} could not be read: {type(error).__name__}: {error}. Nothing was "
                "fetched; try again when Airflow's API server answers."
            ) from error
        if there and record is None:
            raise TransportError(
                f"{self.where} is there but could not be read. Nothing was fetched; try again."
            )
        return None if record is None else str(record)

    def set(self, record: str) -> None:
        try:
            Variable.set(
                self._key,
                record,
                description=f"How far {self._topic} has been landed (airflow-provider-sfevents)",
            )
        except Exception as error:
            raise TransportError(
                f"{self.where} could not be written: {type(error).__name__}: {error}. What has "
                "landed stays landed; the next try only moves the position."
            ) from error
