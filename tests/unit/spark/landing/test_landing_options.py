"""Options of landing: values that cannot work are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.landing.landing_options import LandingOptions

USUAL = LandingOptions(manifest_url="s3a://m.json", table="s3a://lake/salesforce")


def test_defaults_are_valid() -> None:
    """The defaults work for a location of files."""
    USUAL.check()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"on_type_change": "ignore"}, "on_type_change='ignore'.*give new_column or quarantine"),
        ({"decimals": {"A__c": "decimal(99,2)"}}, "precision has to be 1 to 38"),
        ({"decimals": ["A__c"]}, "decimals=.* is no dict of fields and their types"),
        ({"cluster_by": ("event_date",)}, "cluster_by=.*'parquet'"),
        ({"table": "lake.shop"}, "reads like a name in a catalog"),
        ({"max_quarantined": -1}, "max_quarantined=-1 is below 0"),
    ],
)
def test_a_value_that_cannot_work_is_refused(given: dict[str, Any], said: str) -> None:
    """The error of a wrong option names it, its value and its valid values."""
    with pytest.raises(ConfigurationError, match=said):
        replace(USUAL, **given).check()
