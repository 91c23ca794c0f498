"""Options of landing. No I/O, no Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.options import json_option, option, require_known
from airflow_provider_sfevents.spark.schema.decimals import read_decimals
from airflow_provider_sfevents.spark.schema.evolution import ON_TYPE_CHANGE
from airflow_provider_sfevents.spark.tables import naming
from airflow_provider_sfevents.spark.tables.table_options import (
    TableOptions,
    check_table_options,
    cluster_by_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_sfevents.spark.schema.evolution import OnTypeChange

MANIFEST = option("the batch's manifest.json, as Spark reaches it", "URL", flag="--manifest")
LANDING_FOLDER = option(
    "folder for unfinished files and the types of columns "
    "(default: the root, or the namespace's location)",
    "URL",
)
DECIMALS = json_option(
    'numbers that become decimals, by field: {"Amount__c": "decimal(18,2)", "*": "decimal(38,6)"}'
)
TYPE_CHANGE = option("if a field changes in kind: new_column or quarantine", "RULE")


@dataclass(frozen=True, slots=True, kw_only=True)
class LandingOptions:
    """A batch, the tables that it lands in, and how."""

    manifest_url: str = field(metadata=MANIFEST)
    table: str = field(
        metadata=option(
            "folder of the tables, one below it for each event type; for delta and iceberg also "
            "the name of a namespace in a catalog",
            "ROOT",
        )
    )
    table_format: str = field(
        default=naming.PARQUET,
        metadata=option("table format: parquet, delta or iceberg", "FORMAT", flag="--format"),
    )
    partition_by: str = field(
        default=naming.EVENT_DATE,
        metadata=option(
            "partitions of new tables: event_date, none (delta, iceberg) or event_month (iceberg)",
            "RULE",
        ),
    )
    cluster_by: tuple[str, ...] | None = field(
        default=None,
        metadata=json_option(
            'clustering of new tables: ["event_date", "batch_number"] (delta), '
            '["bucket(16, event_id)"] (iceberg)',
            read=cluster_by_of,
        ),
    )
    table_properties: Mapping[str, str] = field(
        default_factory=dict,
        metadata=json_option(
            'TBLPROPERTIES of new tables: {"delta.logRetentionDuration": "interval 60 days"}'
        ),
    )
    landing_folder: str = field(default="", metadata=LANDING_FOLDER)
    max_quarantined: int | None = field(
        default=None,
        metadata=option(
            "land nothing if more events than this cannot be decoded "
            "(default: if no event can be decoded)",
            "N",
            read=int,
        ),
    )
    keep_payload: bool = field(
        default=False, metadata=option("keep each event's raw bytes in the column raw_payload")
    )
    decimals: Mapping[str, str] = field(default_factory=dict, metadata=DECIMALS)
    on_type_change: OnTypeChange = field(default="new_column", metadata=TYPE_CHANGE)

    def table_options(self) -> TableOptions:
        return TableOptions(
            partition_by=self.partition_by,
            cluster_by=self.cluster_by,
            properties=self.table_properties,
        )

    def check(self) -> None:
        naming.check_tables(self.table, self.table_format, self.partition_by)
        naming.check_no_pattern(self.landing_folder, "landing_folder")
        check_table_options(self.table_format, self.table_options())
        if self.max_quarantined is not None and self.max_quarantined < 0:
            raise ConfigurationError(
                f"max_quarantined={self.max_quarantined} is below 0; 0 lands only batches of which "
                "every event decodes."
            )
        read_decimals(self.decimals)
        require_known("on_type_change", self.on_type_change, ON_TYPE_CHANGE)
