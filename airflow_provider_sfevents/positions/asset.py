"""A position in the state store of its topic's asset (Airflow 3.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset

from airflow_provider_sfevents.exceptions import ConfigurationError, TransportError
from airflow_provider_sfevents.positions.record_text import Whose, asset_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import AssetWatcher


def topic_asset(org_id: str, topic: str, watchers: Sequence[AssetWatcher] = ()) -> Asset:
    """Return the asset of an org's topic. Its name equals its URI, and identifies the positions.

    :param org_id: 18 characters.
    :param topic: such as `/event/Order__e`.
    :param watchers: schedule DAGs by this asset, with an `SfEventsWatchTrigger` each; they are not
        part of the asset's identity.
    """
    return Asset(f"salesforce://{org_id}/{topic.strip('/')}", watchers=list(watchers))


class AssetStateStore:
    """Position store in an asset's state. Each org's topic has its own asset, so keys never clash.

    Airflow (3.3.2) removes the state of an asset within a minute after the last DAG has stopped
    referring to it, so the asset must be an inlet or outlet of the task. Airflow also reports the
    state of an inactive asset as never written. So a missing value counts only after a write to the
    same asset has succeeded.

    :param context: the task's; without one (in a trigger) the asset is addressed by its name.
    :raises ConfigurationError: the task does not name the asset.
    """

    def __init__(
        self, org_id: str, consumer: str, topic: str, context: Mapping[str, Any] | None = None
    ) -> None:
        asset = topic_asset(org_id, topic)
        self._key = asset_key(consumer)
        self.whose = Whose(consumer=consumer, topic=topic, store="asset")
        try:
            self._state = _state_of(asset, context)
        except KeyError as error:
            raise ConfigurationError(
                f"position_store='asset' keeps the position with asset {asset.name}, which the "
                f"task does not name. Add it to the task: `inlets=[topic_asset({org_id!r}, "
                f"{topic!r})]`, from airflow_provider_sfevents.positions.asset. An asset of "
                "another name keeps another position, and Airflow drops the state of an asset "
                "within a minute once no DAG names it."
            ) from error
        self.where = f"State {self._key!r} of asset {asset.name}"
        self.advice = (
            "Another task wrote it at the same time: give each task a `consumer` of its own."
        )

    def get(self) -> str | None:
        try:
            record = self._state.get(self._key)
            if record is None:
                self._probe()
        except Exception as error:
            raise TransportError(
                f"{self.where} could not be read: {type(error).__name__}: {error}. Nothing was "
                "fetched. Check that the asset is active (its DAG is parsed and not paused by an "
                "import error), then try again. Airflow drops what an asset keeps within a minute "
                "once no DAG names that asset any more."
            ) from error
        if record is not None and not isinstance(record, str):
            raise ConfigurationError(
                f"{self.where} holds a {type(record).__name__}; a position is text. Correct or "
                "delete it."
            )
        return record

    def set(self, record: str) -> None:
        try:
            self._state.set(self._key, record)
        except Exception as error:
            raise TransportError(
                f"{self.where} could not be written: {type(error).__name__}: {error}. What has "
                "landed stays landed; the next try only moves the position."
            ) from error

    def _probe(self) -> None:
        probe = f"{self._key}.probe"
        self._state.set(probe, "is the asset active?")
        self._state.delete(probe)


def _state_of(asset: Asset, context: Mapping[str, Any] | None) -> Any:
    if context is None:
        from airflow.sdk.execution_time.context import AssetStateStoreAccessor

        return AssetStateStoreAccessor(name=asset.name)
    return context["asset_state_store"][asset]
