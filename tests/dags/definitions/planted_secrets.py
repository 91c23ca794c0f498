"""Waits, landings and failures with every login; each failure leaves its local variables."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from airflow.sdk import DAG, BaseHook, Variable
from typing_extensions import override

from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator
from airflow_provider_sfevents.sensors.sfevents import SfEventsSensor
from tests.harness.leaks import recorded

AUTHS = ("client_credentials", "jwt_bearer", "refresh_token", "password", "soap", "session")
TOPIC = "/event/Order__e"
FOLDER = Path(os.environ["TEST_FOLDER"])
EACH: dict[str, Any] = {"idle_seconds": 0.5, "trigger_rule": "all_done"}
STAND_IN: dict[str, Any] = {"application": os.environ["STAND_IN_FILE"]}


def keep_locals(context: dict[str, Any]) -> None:
    """Write down what a recorder of exceptions would capture."""
    (FOLDER / "locals").mkdir(exist_ok=True)
    text = recorded(context["exception"])
    (FOLDER / "locals" / f"{context['ti'].task_id}-{uuid4().hex}").write_text(text)


def dag(name: str) -> DAG:
    return DAG(
        name,
        schedule=None,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        default_args={"on_failure_callback": keep_locals},
    )


def wait(name: str, conn_id: str, **arguments: Any) -> SfEventsSensor:
    return SfEventsSensor(
        task_id=f"wait_{name}",
        topic=TOPIC,
        conn_id=conn_id,
        consumer=name,
        poke_interval=1,
        timeout=60,
        **{**EACH, **arguments},
    )


def land(name: str, conn_id: str, **arguments: Any) -> SfEventsToSparkOperator:
    given = {"topic": TOPIC, "consumer": name, **STAND_IN, **EACH, **arguments}
    return SfEventsToSparkOperator(task_id=f"land_{name}", conn_id=conn_id, **given)


with dag("works"):
    for auth in AUTHS:
        wait(auth, auth, deferrable=auth != "soap") >> land(auth, auth)
    land("spark", "client_credentials", application="", table=str(FOLDER / "lake"))

with dag("fails"):
    for auth in AUTHS:
        wait(f"wrong_{auth}", f"wrong_{auth}", deferrable=auth == "jwt_bearer")
        land(f"wrong_{auth}", f"wrong_{auth}")
        land(f"topic_{auth}", auth, topic="/event/Oder__e")
    land("spark_fails", "password", env_vars={"STAND_IN": "fail"})


class Leaks(SfEventsToSparkOperator):
    """Does what must not be done with a secret."""

    @override
    def execute(self, context: Any) -> Any:
        secret = BaseHook.get_connection("password").extra_dejson["user_password"]
        Variable.set("leak", secret)
        context["ti"].xcom_push("leak", {"a": secret})
        (FOLDER / "airflow" / "sfevents" / "leak.json").write_text(secret)
        self.log.debug("%s", secret.encode().hex())  # Airflow masks the secret as it is
        self.application_args = ["--secret", secret]
        super().execute(context)
        int(secret)


with dag("leaks"):
    Leaks(task_id="leak", topic=TOPIC, conn_id="password", consumer="leak", **STAND_IN, **EACH)
