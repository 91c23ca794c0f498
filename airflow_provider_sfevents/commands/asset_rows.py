"""A position in the state store of its topic's asset, in Airflow's database."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from airflow.models.asset import AssetModel
from airflow.models.asset_state_store import AssetStateStoreModel
from airflow.state import AssetScope, get_state_backend
from airflow.utils.session import create_session
from sqlalchemy import select

from airflow_provider_sfevents.commands.variable_rows import told
from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.positions.asset import topic_asset
from airflow_provider_sfevents.positions.record_text import PREFIX, Whose, asset_key

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

_SCHEME = "salesforce://"

PROBE = ".probe"
"""End of the keys by which a task checks that an asset is active; left over after a kill."""


class AssetRow:
    """State of an active asset; tasks cannot reach the state of an inactive one.

    :param org_id: empty if it is not known: then nothing is found, and nothing can be written.
    """

    advice = "A task wrote it at the same time; show it again."

    def __init__(self, org_id: str, consumer: str, topic: str) -> None:
        self._asset = topic_asset(org_id, topic).name if org_id else ""
        self._key = asset_key(consumer)
        self.whose = Whose(consumer=consumer, topic=topic, store="asset")
        self.where = f"State {self._key!r} of " + (
            f"asset {self._asset}" if org_id else f"an asset of {topic}"
        )

    def get(self) -> str | None:
        with told(self.where, "read"), create_session() as session:
            scope = self._scope(session)
            stored = (
                None
                if scope is None
                else get_state_backend().get(scope, self._key, session=session)
            )
        return None if stored is None else text(json.loads(stored), self.where)

    def set(self, record: str) -> None:
        with told(self.where, "written"), create_session() as session:
            scope = self._scope(session)
            if scope is None:
                raise ConfigurationError(
                    f"{self.where} cannot be written: Airflow knows no such active asset. Name it "
                    "as inlet or outlet of the task, and let Airflow parse the DAG."
                )
            get_state_backend().set(scope, self._key, json.dumps(record), session=session)

    def replace(self, before: str, record: str) -> bool:
        """Write a record in place of another one; False: it is not that one any more."""
        with told(self.where, "written"), create_session() as session:
            session.scalar(  # one writer at a time, where the database locks rows
                select(AssetModel.id).where(AssetModel.name == self._asset).with_for_update()
            )
            scope, backend = self._scope(session), get_state_backend()
            stored = None if scope is None else backend.get(scope, self._key, session=session)
            if scope is None or stored is None or json.loads(stored) != before:
                return False
            backend.set(scope, self._key, json.dumps(record), session=session)
            return True

    def delete(self) -> None:
        with told(self.where, "deleted"), create_session() as session:
            if (scope := self._scope(session)) is not None:
                get_state_backend().delete(scope, self._key, session=session)

    def _scope(self, session: Session) -> AssetScope | None:
        found = session.scalar(
            select(AssetModel.id).where(AssetModel.name == self._asset, AssetModel.active.has())
        )
        return None if found is None else AssetScope(asset_id=found)


def asset_orgs(consumer: str, topic: str) -> set[str]:
    """Return the orgs whose asset of this topic holds state of this consumer."""
    states = _states(select(AssetModel.name).where(AssetStateStoreModel.key == asset_key(consumer)))
    found = (_org_and_topic(name) for (name,) in states)
    return {org_id for org_id, of in found if of == topic.strip("/")}


def text(value: object, where: str) -> str:
    """Check that a stored value is text, as tasks write it, and return it.

    :raises ConfigurationError: it is of another type.
    """
    if isinstance(value, str):
        return value
    raise ConfigurationError(
        f"{where} holds a {type(value).__name__}; a position is text. With `[workers] "
        "state_store_backend` it is stored outside of Airflow's database, out of reach from here."
    )


def all_states(prefix: str = PREFIX) -> list[tuple[str, str]]:
    """Return location and text of every state of a topic's asset whose key begins like this."""
    rows = _states(
        select(AssetModel.name, AssetStateStoreModel.key, AssetStateStoreModel.value).where(
            AssetStateStoreModel.key.startswith(prefix, autoescape=True)
        )
    )
    kept = [(name, key, json.loads(value), value) for name, key, value in rows]
    return [
        (f"State {key!r} of asset {name}", value if isinstance(value, str) else stored)
        for name, key, value, stored in kept
        if not key.endswith(PROBE)
    ]


def _states(statement: Any) -> list[Any]:
    of_topics = statement.join(
        AssetStateStoreModel, AssetStateStoreModel.asset_id == AssetModel.id
    ).where(AssetModel.name.startswith(_SCHEME))
    with told("The state of assets", "read"), create_session() as session:
        return list(session.execute(of_topics))


def _org_and_topic(asset: str) -> tuple[str, str]:
    org_id, _, topic = asset.removeprefix(_SCHEME).partition("/")
    return org_id, topic
