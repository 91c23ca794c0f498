"""A fake of the process that answers a task's requests, which all go through one `send`."""

from __future__ import annotations

from typing import Any

from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time import comms


class Supervisor:
    """Variables and asset states in dicts.

    :ivar out_of_order: every request fails, as with an API server that does not answer.
    :ivar forgets: writes are acknowledged and lost.
    :ivar inactive: asset names that the server does not know as active.
    """

    def __init__(self) -> None:
        self.variables: dict[str, str] = {}
        self.assets: dict[tuple[str, str], Any] = {}
        self.inactive: set[str] = set()
        self.out_of_order = False
        self.forgets = False

    def send(self, message: Any) -> Any:
        if self.out_of_order:
            raise AirflowRuntimeError(
                comms.ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail={"status_code": 502})
            )
        answer = getattr(self, f"_{type(message).__name__}")
        return answer(message) or comms.OKResponse(ok=True)

    def _GetVariable(self, asked: comms.GetVariable) -> Any:  # noqa: N802 - Airflow's names
        if asked.key not in self.variables:
            return comms.ErrorResponse(error=ErrorType.VARIABLE_NOT_FOUND, detail={})
        return comms.VariableResult(key=asked.key, value=self.variables[asked.key])

    def _GetVariableKeys(self, asked: comms.GetVariableKeys) -> Any:  # noqa: N802
        keys = [key for key in self.variables if key.startswith(asked.prefix or "")]
        return comms.VariableKeysResult(keys=keys, total_entries=len(keys))

    def _PutVariable(self, asked: comms.PutVariable) -> None:  # noqa: N802
        if not self.forgets:
            self.variables[asked.key] = str(asked.value)

    def _GetAssetStateStoreByName(self, asked: comms.GetAssetStateStoreByName) -> Any:  # noqa: N802
        if (asked.name, asked.key) not in self.assets or asked.name in self.inactive:
            return comms.ErrorResponse(error=ErrorType.ASSET_STORE_NOT_FOUND, detail={})
        return comms.AssetStateStoreResult(value=self.assets[asked.name, asked.key])

    def _SetAssetStateStoreByName(  # noqa: N802
        self, asked: comms.SetAssetStateStoreByName
    ) -> None:
        if asked.name in self.inactive:
            raise AirflowRuntimeError(
                comms.ErrorResponse(error=ErrorType.ASSET_NOT_FOUND, detail={"name": asked.name})
            )
        self.assets[asked.name, asked.key] = asked.value

    def _DeleteAssetStateStoreByName(  # noqa: N802
        self, asked: comms.DeleteAssetStateStoreByName
    ) -> None:
        self.assets.pop((asked.name, asked.key), None)
