"""Open the position store that the argument `position_store` names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.positions.stores import open_own

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_sfevents.positions.stores import PositionStore

NAMES = ("variable", "asset", "xcom", "managed")
_DOTTED_PATH = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)+")


def check_spec(spec: Any) -> None:
    """Refuse a value that cannot be a `position_store`.

    A dotted path is not imported, because only the workers may have its module.

    :raises ConfigurationError: it is neither the name of a store nor a dotted path.
    """
    if spec is None or (
        isinstance(spec, str) and spec not in NAMES and not _DOTTED_PATH.fullmatch(spec)
    ):
        raise ConfigurationError(
            f"position_store={spec!r} is not a store. Give {', '.join(map(repr, NAMES))}, or the "
            "dotted path of a store of your own, such as 'my_package.stores.Redis'."
        )


def open_store(
    spec: Any,
    *,
    org_id: str,
    consumer: str,
    topic: str,
    context: Mapping[str, Any] | None = None,
    tasks: Sequence[str] = (),
) -> PositionStore:
    """Return the store of one position. Cheap; nothing is read yet.

    :param spec: `variable`, `asset`, `xcom`, `managed`, or a user's own (`stores.open_own`).
    :param context: the task's; `None` in a trigger.
    :param tasks: with `xcom`, further tasks that write this position.
    :raises ConfigurationError: there is no such store.
    """
    check_spec(spec)
    match spec:
        case "variable" | "managed":  # `managed`: Salesforce keeps the replay id only
            from airflow_provider_sfevents.positions.variable import VariableStore

            return VariableStore(consumer, topic)
        case "asset":
            from airflow_provider_sfevents.positions.asset import AssetStateStore

            return AssetStateStore(org_id, consumer, topic, context)
        case "xcom":
            from airflow_provider_sfevents.positions.xcom import XComStore

            return XComStore(org_id, consumer, topic, context, tasks)
        case _:
            return open_own(spec, consumer=consumer, topic=topic)
