"""A position in an Airflow Variable, by Airflow's database."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow.models.variable import Variable
from airflow.utils.session import create_session
from sqlalchemy import select, update
from sqlalchemy.exc import SQLAlchemyError

from airflow_provider_sfevents.exceptions import ConfigurationError, TransportError
from airflow_provider_sfevents.positions.record_text import PREFIX, variable_key

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


@contextmanager
def told(where: str, doing: str) -> Iterator[None]:
    """Raise a database error as one sentence.

    :param where: the thing that is read or changed.
    :param doing: the failed operation, in the passive: `written`.
    :raises TransportError: the database does not answer.
    """
    try:
        yield
    except SQLAlchemyError as error:
        said = str(getattr(error, "orig", None) or error).splitlines()[0]
        raise TransportError(
            f"{where} could not be {doing}: {type(error).__name__}: {said}. Check that this "
            "machine reaches Airflow's database (`airflow db check`), then try again."
        ) from error


class VariableRow:
    """A Variable as workers see it: environment and secrets backend come before the database.

    `Variable.get` also returns the default if the database does not answer, so the row itself is
    read, too.
    """

    def __init__(self, consumer: str, topic: str) -> None:
        self._key = variable_key(consumer, topic)
        self._topic = topic
        self.where = f"Variable {self._key!r}"
        self.advice = (
            "Another value is read in its place: remove the environment variable "
            f"AIRFLOW_VAR_{self._key.upper()}, or the entry {self._key!r} from the secrets "
            "backend, here and on the workers."
        )

    def get(self) -> str | None:
        with told(self.where, "read"), create_session() as session:
            row = session.scalar(select(Variable).where(Variable.key == self._key))
            stored = None if row is None else row.val
        if row is not None and stored is None:
            raise ConfigurationError(
                f"{self.where} is encrypted, and this machine cannot decrypt it: `[core] "
                "fernet_key` is not that of the API server. Give this machine the same key."
            )
        seen = Variable.get(self._key, default_var=None)
        return stored if seen is None else str(seen)

    def set(self, record: str) -> None:
        with told(self.where, "written"):
            Variable.set(
                self._key,
                record,
                description=f"How far {self._topic} has been landed (airflow-provider-sfevents)",
            )

    def replace(self, before: str, record: str) -> bool:
        """Write a record in place of another one; False: it is not that one any more."""
        with told(self.where, "written"), create_session() as session:
            row = session.scalar(select(Variable).where(Variable.key == self._key))
            if row is None or row.val != before:
                return False
            stored = row._val  # noqa: SLF001 - as it is in the database, maybe encrypted
            new = Variable(key=self._key, val=record)
            changed = session.execute(
                update(Variable)
                .where(Variable.key == self._key, Variable._val == stored)  # noqa: SLF001
                .values(val=new._val, is_encrypted=new.is_encrypted)  # noqa: SLF001
                .execution_options(synchronize_session=False)
            )
            return bool(changed.rowcount)

    def delete(self) -> None:
        with told(self.where, "deleted"):
            Variable.delete(self._key)


def variables_of(keys: Collection[str]) -> dict[str, str]:
    """Return the texts of those Variables that are there, by key."""
    if not keys:
        return {}
    with told("Variables", "read"), create_session() as session:
        rows = session.scalars(select(Variable).where(Variable.key.in_(keys)))
        return {row.key: row.val or "" for row in rows}


def all_variables(prefix: str = PREFIX) -> list[tuple[str, str]]:
    """Return location and text of every Variable whose name begins like that of a position."""
    where = "Variables"
    with told(where, "read"), create_session() as session:
        columns = (Variable.key, Variable._val, Variable.is_encrypted)  # noqa: SLF001
        rows = session.execute(
            select(*columns).where(Variable.key.startswith(prefix, autoescape=True))
        )
        return [(f"Variable {key!r}", str(_text(*stored))) for key, *stored in rows]


def _text(value: str | None, encrypted: bool) -> str | None:
    """Return a Variable's text. Loading the model would look for secrets, a millisecond for each.

    :return: None: it cannot be decrypted here.
    """
    row = Variable()
    row._val, row.is_encrypted = value or "", encrypted  # noqa: SLF001
    found: str | None = row.get_val()
    return found
