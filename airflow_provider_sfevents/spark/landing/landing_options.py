"""What may be asked of a landing: checked when a DAG is parsed, and again by the job. No I/O, no Spark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.schema.decimals import read_decimals
from airflow_provider_sfevents.spark.schema.evolution import ON_TYPE_CHANGE
from airflow_provider_sfevents.spark.tables.naming import check_tables
from airflow_provider_sfevents.spark.tables.table_options import check_table_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_sfevents.spark.tables.table_options import TableOptions


def check_order(
    table: str,
    table_format: str,
    options: TableOptions,
    decimals: Mapping[str, str],
    on_type_change: str,
) -> None:
    """Refuse an order that cannot work; parameters as of `landing.Order`.

    :raises ConfigurationError: one of them cannot work; the message says what can.
    """
    check_tables(table, table_format, options.partition_by)
    check_table_options(table_format, options)
    read_decimals(decimals)
    if on_type_change not in ON_TYPE_CHANGE:
        raise ConfigurationError(
            f"on_type_change={on_type_change!r} is not known; give {' or '.join(ON_TYPE_CHANGE)}."
        )


def decimals_of(text: str) -> dict[str, str]:
    """Read what an argument of the job says.

    :raises ConfigurationError: it is no JSON object.
    """
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ConfigurationError(f"--decimals {text!r} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise ConfigurationError(
            f'--decimals {text!r} is no JSON object; give fields and their types, such as {{"Amount__c": "decimal(18,2)"}}.'
        )
    return found
