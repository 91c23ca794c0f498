"""DAGs that a topic starts, each topic with a watcher; switched on by the test that needs it."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

from airflow.providers.common.messaging.triggers.msg_queue import MessageQueueTrigger
from airflow.sdk import DAG, Asset, AssetWatcher

from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator
from airflow_provider_sfevents.positions.asset import topic_asset
from airflow_provider_sfevents.triggers.sfevents import SfEventsWatchTrigger

LANDING: dict[str, Any] = {
    "task_id": "land",
    "application": os.environ["STAND_IN_FILE"],
}


def watched(
    name: str,
    of: str = "",
    *,
    asset: Asset | None = None,
    trigger: Any = None,
    again_after: float = 900.0,
    **both: Any,
) -> None:
    """A DAG `watched_<name>` of the topic `Watched_<of>__e`.

    :param of: the DAG's own name by default.
    :param both: arguments of both watcher and operator.
    """
    dag_id, topic = f"watched_{name}", f"/event/Watched_{of or name}__e"
    if trigger is None:
        trigger = SfEventsWatchTrigger(topic, dag_id, again_after=again_after, **both)
    watcher = AssetWatcher(name=name, trigger=trigger)
    asset = asset or Asset(dag_id)
    asset.watchers.append(watcher)
    with DAG(
        dag_id,
        schedule=[asset],
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        max_active_runs=1,
        is_paused_upon_creation=True,
    ):
        inlets = [asset] if both.get("position_store") == "asset" else []
        SfEventsToSparkOperator(topic=topic, inlets=inlets, **LANDING, **both)


watched("burst")
watched("first", of="shared")
watched("second", of="shared")
watched("failing", again_after=5)
watched("mistaken", conn_id="wrong_secret")
watched("killed")
watched("dead_part_closed")
watched("elsewhere")
watched("not_writable")
watched("twice")
watched("idle")
watched("latest", initial_replay="latest")
watched("own", position_store="own_store.Files")
watched(
    "asset",
    asset=topic_asset(os.environ["TEST_ORG"], "/event/Watched_asset__e"),
    position_store="asset",
)
watched(
    "queue",
    trigger=MessageQueueTrigger(
        scheme="sfevents", topic="/event/Watched_queue__e", consumer="watched_queue"
    ),
)
