"""Admin API of faults and the clock: `POST /emulator/faults/<verb>` with the verb's arguments."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.routing import Route

from airflow_provider_sfevents.emulator.http.admin.admin_answers import Facts, answering

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.fault_verbs import FaultVerbs
    from airflow_provider_sfevents.emulator.org.org import Org

FOR_ALL = (
    "away",
    "back",
    "clear_faults",
    "drop_connections",
    "expire_tokens",
    "fail_next",
    "freeze",
    "lock_out",
    "pause_keepalives",
    "reorder_next",
    "repeat_next",
    "resend_on_reconnect",
    "restart",
    "resume_keepalives",
    "revoke",
    "thaw",
    "trickle",
    "unlock",
)
FOR_THE_ORG = ("forget_schema", "reset_replay_ids")


class FaultAdmin:
    """Admin routes of one org and its emulator."""

    def __init__(self, org: Org, faults: FaultVerbs) -> None:
        self._org = org
        self._faults = faults

    def routes(self) -> list[Route]:
        targets = dict.fromkeys(FOR_ALL, self._faults) | dict.fromkeys(FOR_THE_ORG, self._org)
        return [
            Route("/emulator/faults", answering(self._waiting), methods=["GET"]),
            Route("/emulator/clock", answering(self._now), methods=["GET"]),
            Route("/emulator/clock", answering(self._advance), methods=["POST"]),
            *(
                Route(
                    f"/emulator/faults/{name}",
                    answering(partial(_carry_out, target, name)),
                    methods=["POST"],
                )
                for name, target in targets.items()
            ),
        ]

    def _waiting(self, _: Facts) -> Any:
        return {"faults": [asdict(fault) for fault in self._faults.faults()]}

    def _now(self, _: Facts) -> Any:
        clock = self._org.parts.clock
        now = clock.now()
        ahead = (now - clock.unmoved()).total_seconds()
        return {"now": now.isoformat(timespec="seconds"), "ahead_seconds": round(ahead)}

    def _advance(self, asked: Facts) -> Any:
        self._org.parts.clock.advance(seconds=float(asked["seconds"]))
        return self._now({})


def _carry_out(target: Any, name: str, asked: Facts) -> Any:
    getattr(target, name)(**asked)
    return {"done": name}
