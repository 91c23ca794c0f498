from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_sfevents.batches.managed.managed_arguments import check_managed
from airflow_provider_sfevents.batches.next_batch import NextBatch
from airflow_provider_sfevents.exceptions import ConfigurationError
from tests.unit.batches.building import position

GIVEN: dict[str, Any] = {
    "position_store": "managed",
    "managed_subscription": "Orders",
    "allow_latest_recovery": False,
}


def test_a_subscription_is_named() -> None:
    """A managed subscription is given by name or id; without `managed` there is none."""
    assert check_managed(**GIVEN) == "Orders"
    assert check_managed("variable", None, allow_latest_recovery=False) == ""


def test_a_template_is_left_until_it_is_rendered() -> None:
    """A templated subscription is not validated before it is rendered."""
    template = {**GIVEN, "managed_subscription": "{{ var.value.x }}"}
    assert check_managed(**template, is_rendered=False) == "{{ var.value.x }}"
    with pytest.raises(ConfigurationError):
        check_managed(**template)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"managed_subscription": None}, "needs managed_subscription"),
        ({"managed_subscription": "1x"}, "names no managed event subscription"),
        ({"initial_replay": "latest"}, "initial_replay='latest' cannot be used"),
        ({"replay_fallback": "earliest"}, "replay_fallback='earliest' cannot be used"),
        ({"position_store": "variable"}, "is used with position_store='managed' only"),
        (
            {
                "position_store": "variable",
                "managed_subscription": None,
                "allow_latest_recovery": True,
            },
            "is about managed subscriptions",
        ),
    ],
    ids=["none", "no name", "start", "fallback", "another store", "for nothing"],
)
def test_what_contradicts_is_refused(change: dict[str, Any], said: str) -> None:
    """Contradicting arguments of a managed subscription are refused when the DAG is parsed."""
    with pytest.raises(ConfigurationError, match=said):
        check_managed(**{**GIVEN, **change})


def test_a_waiting_trigger_knows_the_subscription() -> None:
    """The managed subscription survives a trigger's arguments, and may be left out of them."""
    next_batch = NextBatch.after(position(), "Orders")
    assert NextBatch.from_dict(next_batch.to_dict()) == next_batch
    earlier = {name: value for name, value in next_batch.to_dict().items() if name != "managed"}
    assert NextBatch.from_dict(earlier).managed == ""
