from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.provider_info import get_provider_info

if TYPE_CHECKING:
    from tests.harness.airflow_home import AirflowHome

pytestmark = pytest.mark.airflow


def test_airflow_lists_the_provider(airflow_home: AirflowHome) -> None:
    """`airflow providers list` shows the package, and `providers hooks` its connection type."""
    listed = airflow_home.command("providers", "list")
    hooks = airflow_home.command("providers", "hooks")
    assert listed.returncode == 0, listed.stdout
    assert "airflow-provider-sfevents" in listed.stdout
    assert "airflow_provider_sfevents.hooks.sfevents" in hooks.stdout.replace("\n", "")


def test_form_of_the_ui_has_our_fields() -> None:
    """Airflow's answer for the connection form has each field with label, help and look."""
    from airflow.api_fastapi.core_api.services.ui.connections import HookMetaService

    [form] = [one for one in HookMetaService.hook_meta_data() if one.connection_type == "sfevents"]
    assert form.hook_name == "Salesforce Events"
    assert form.standard_fields is not None
    assert form.standard_fields.host is not None
    assert form.standard_fields.host.title == "My Domain URL"
    assert form.standard_fields.host.placeholder == "https://acme.my.salesforce.com"
    assert form.standard_fields.port is not None
    assert form.standard_fields.port.title == "Pub/Sub port"
    assert not form.standard_fields.port.hidden
    assert form.standard_fields.url_schema is not None
    assert form.standard_fields.url_schema.hidden
    declared = get_provider_info()["connection-types"][0]["conn-fields"]
    assert form.extra_fields is not None
    shown = {
        name: {
            "label": field["schema"]["title"],
            # None if the help is Markdown, which Airflow shows only then.
            **({"description": field["description"]} if field["description"] else {}),
            "schema": {key: value for key, value in field["schema"].items() if key != "title"},
        }
        for name, field in form.extra_fields.items()
    }
    assert shown == declared


def test_stored_secrets_do_not_leave_airflow() -> None:
    """The API's answer on a stored connection holds no secret."""
    from airflow.api_fastapi.core_api.datamodels.connections import ConnectionResponse
    from airflow.models.connection import Connection

    stored = Connection(
        conn_id="sfevents_default",
        conn_type="sfevents",
        host="https://acme.my.salesforce.com",
        login="the-consumer-key",
        password="secret-1",
        extra='{"private_key": "secret-2", "private_key_passphrase": "secret-3",'
        ' "session_token": "secret-4", "refresh_token": "secret-5",'
        ' "user_password": "secret-6", "security_token": "secret-7",'
        ' "username": "integration@acme.com"}',
    )
    answer = ConnectionResponse.model_validate(stored, from_attributes=True).model_dump_json()
    assert "secret-" not in answer
    assert "integration@acme.com" in answer


def test_a_dag_runs_in_an_airflow_of_its_own(airflow_home: AirflowHome) -> None:
    """The harness runs a DAG by real processes and reads its states, XComs and Variables."""
    (airflow_home.dags / "probe.py").write_text(
        "from airflow.sdk import DAG, Variable, task\n"
        "with DAG('probe', schedule=None):\n"
        "    @task\n"
        "    def count(number):\n"
        "        Variable.set('seen', str(number))\n"
        "        return {'number': number}\n"
        "    count.expand(number=[7])\n"
    )
    ran = airflow_home.test_dag("probe", "2026-01-01")
    assert (ran.exit_code, ran.state, ran.tasks) == (0, "success", {"count[0]": "success"}), ran.log
    assert airflow_home.xcom("probe", ran.run_id, "count", map_index=0) == {"number": 7}
    assert airflow_home.variable("seen") == "7"
    airflow_home.set_variable("seen", "8")
    assert airflow_home.variable("seen") == "8"
    assert airflow_home.variable("unseen") is None
