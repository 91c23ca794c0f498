"""A wrong clock for one process: the package's modules get another time, Airflow's do not."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta, tzinfo
from typing import Self

from typing_extensions import override

SECONDS = "SFEVENTS_PROOF_SKEW_SECONDS"


def install(seconds: float) -> None:
    """Set the clock of all loaded modules of the package.

    :param seconds: seconds that the clock is ahead.
    """
    if not seconds:
        return
    ahead = timedelta(seconds=seconds)

    class OfAnyClock(type):
        @override
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, datetime)

    class Skewed(datetime, metaclass=OfAnyClock):
        @classmethod
        @override
        def now(cls, tz: tzinfo | None = None) -> Self:
            return datetime.now(tz) + ahead  # type: ignore[return-value]

    for name, module in [*sys.modules.items()]:
        if (
            name.startswith("airflow_provider_sfevents.")
            and vars(module).get("datetime") is datetime
        ):
            module.datetime = Skewed  # type: ignore[attr-defined]
