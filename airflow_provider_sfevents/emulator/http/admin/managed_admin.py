"""Admin API of an org's managed subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.routing import Route

from airflow_provider_sfevents.emulator.http.admin.admin_answers import Facts, answering

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.org.org import Org


class ManagedAdmin:
    """Admin routes of one org."""

    def __init__(self, org: Org) -> None:
        self._org = org

    def routes(self) -> list[Route]:
        return [
            Route("/emulator/managed", answering(self._all), methods=["GET"]),
            Route("/emulator/managed/define", answering(self._define), methods=["POST"]),
            Route("/emulator/managed/set", answering(self._set), methods=["POST"]),
            Route("/emulator/managed/delete", answering(self._delete), methods=["POST"]),
        ]

    def _all(self, _: Facts) -> Any:
        held = [one.managed for one in self._org.subscriptions if one.open and one.managed]
        return {
            "managed": [
                {**one.to_json(), "active": one.developer_name in held}
                for one in self._org.managed_subscriptions
            ]
        }

    def _define(self, asked: Facts) -> Any:
        return self._org.define_managed_subscription(**asked).to_json()

    def _set(self, asked: Facts) -> Any:
        return self._org.set_managed_subscription(**asked).to_json()

    def _delete(self, asked: Facts) -> Any:
        self._org.delete_managed_subscription(**asked)
        return {"done": True}
