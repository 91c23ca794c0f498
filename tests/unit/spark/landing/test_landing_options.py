"""What may be asked of a landing."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.landing.landing_options import check_order, decimals_of
from airflow_provider_sfevents.spark.tables.table_options import TableOptions

USUAL: dict[str, Any] = {
    "table": "s3a://lake/salesforce",
    "table_format": "parquet",
    "options": TableOptions(),
    "decimals": {},
    "on_type_change": "new_column",
}


def test_the_usual_is_taken() -> None:
    """As the operators and the job have it by default."""
    check_order(**USUAL)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"on_type_change": "ignore"}, "on_type_change='ignore'.*give new_column or quarantine"),
        ({"decimals": {"A__c": "decimal(99,2)"}}, "precision has to be 1 to 38"),
        ({"options": TableOptions(cluster_by=("event_date",))}, "cluster_by=.*'parquet'"),
        ({"table": "lake.shop"}, "reads like a name in a catalog"),
    ],
)
def test_what_cannot_work_is_refused(asked: dict[str, Any], said: str) -> None:
    """Whatever it is, with what can."""
    with pytest.raises(ConfigurationError, match=said):
        check_order(**{**USUAL, **asked})


def test_decimals_come_as_json() -> None:
    """On the job's command line; anything but an object of them is refused."""
    assert decimals_of('{"A__c": "decimal(9,2)"}') == {"A__c": "decimal(9,2)"}
    for text in ("A__c=decimal(9,2)", '["A__c"]'):
        with pytest.raises(ConfigurationError, match="is no JSON"):
            decimals_of(text)
