"""Options of the Spark jobs: fields, command lines and arguments agree."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.current_state.current_state_options import ApplyOptions
from airflow_provider_sfevents.spark.current_state.snapshot.snapshot_options import SnapshotOptions
from airflow_provider_sfevents.spark.landing.landing_options import LandingOptions
from airflow_provider_sfevents.spark.options import (
    arguments_of,
    changed,
    command_line,
    flag_of,
    json_option,
    option,
    options_from,
)
from airflow_provider_sfevents.spark.upkeep.plan import UpkeepOptions

LANDING = LandingOptions(manifest_url="s3a://m.json", table="s3a://lake")
ALL_LANDING = LandingOptions(
    manifest_url="s3a://m.json",
    table="lake.shop",
    table_format="iceberg",
    partition_by="event_month",
    cluster_by=("bucket(16, event_id)",),
    table_properties={"write.parquet.compression-codec": "zstd"},
    landing_folder="s3a://lake/side",
    max_quarantined=0,
    keep_payload=True,
    decimals={"Amount__c": "decimal(18,2)"},
    on_type_change="quarantine",
)
ALL_APPLY = ApplyOptions(
    manifest_url="s3a://m.json",
    current_state="lake.org",
    table_format="iceberg",
    deletions="flag",
    history=True,
    row_changes="vectors",
    landing_folder="s3a://lake/side",
    new_entities="empty",
    on_type_change="quarantine",
    flush=True,
)
ALL_SNAPSHOT = SnapshotOptions(
    current_state="lake.org",
    table_format="delta",
    deletions="flag",
    history=True,
    row_changes="vectors",
    landing_folder="s3a://lake/side",
    entity="Account",
    records="s3a://lake/read",
    records_format="csv",
    records_read=7,
    read_at=datetime(2026, 11, 1, 6, 30, tzinfo=UTC),
    deleted_ids="s3a://lake/ids",
    partial=True,
    event_schema="s3a://lake/schema",
    decimals={"*": "decimal(38,6)"},
    lacking=("Old__c", "Older__c"),
    report="s3a://lake/report",
)
ALL_UPKEEP = UpkeepOptions(
    table="lake.shop",
    current_state="lake.org",
    table_format="delta",
    keep_hours=48,
    dry_run=False,
    report="s3a://lake/report",
)


@pytest.mark.parametrize("options", [ALL_LANDING, ALL_APPLY, ALL_SNAPSHOT, ALL_UPKEEP])
def test_a_job_has_the_options_that_it_was_passed(options: Any) -> None:
    """Each option that is not its default reaches the job as it was given."""
    kind = type(options)
    optional = [one for one in fields(kind) if one.name in changed(options)]
    arguments = arguments_of(options)
    assert all(flag_of(one).removeprefix("--") in " ".join(arguments) for one in optional)
    parsed = command_line("", kind).parse_args(arguments)
    assert options_from(kind, vars(parsed)) == options


def test_defaults_are_left_out() -> None:
    """Options with their defaults are no arguments, and the job has the same defaults."""
    arguments = arguments_of(LANDING)
    assert arguments == ["--manifest", "s3a://m.json", "--table", "s3a://lake"]
    parsed = command_line("", LandingOptions).parse_args(arguments)
    assert options_from(LandingOptions, vars(parsed)) == LANDING


def test_an_option_of_two_values_is_one_argument() -> None:
    """An argument that landing and applying share is passed once, and both read it."""
    arguments = arguments_of(ALL_LANDING, ALL_APPLY)
    assert (arguments.count("--format"), arguments.count("--manifest")) == (1, 1)
    parsed = vars(command_line("", LandingOptions, ApplyOptions).parse_args(arguments))
    assert options_from(LandingOptions, parsed) == ALL_LANDING
    assert options_from(ApplyOptions, parsed) == ALL_APPLY


def test_a_required_option_of_either_value_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    """Applying needs a table format, which is optional for landing."""
    arguments = [*arguments_of(LANDING), "--current-state", "s3a://lake/org"]
    with pytest.raises(SystemExit):
        command_line("", LandingOptions, ApplyOptions).parse_args(arguments)
    assert "required: --format" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--table-properties", "a=b"], "--table-properties 'a=b' cannot be read: Expecting"),
        (["--decimals", "A__c=decimal(9,2)"], "--decimals .* cannot be read"),
        (["--decimals", '["A__c"]'], "decimals=.* is no dict of fields and their types"),
        (["--cluster-by", "4"], "cluster_by=4 is no list of columns"),
        (["--max-quarantined", "few"], "--max-quarantined 'few' cannot be read: invalid literal"),
        (["--max-quarantined", "-1"], "max_quarantined=-1 is below 0"),
    ],
)
def test_text_that_cannot_be_read_is_refused(arguments: list[str], said: str) -> None:
    """The error of an unreadable option names the option and its text."""
    parser = command_line("", LandingOptions)
    with pytest.raises(ConfigurationError, match=said):
        options_from(LandingOptions, vars(parser.parse_args([*arguments_of(LANDING), *arguments])))


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Options with help texts that argparse could take for placeholders."""

    share: int = field(default=5, metadata=option("in % of all", "N", read=int))
    quiet: bool = field(default=False, metadata=option("say nothing"))
    extra: Any = field(default=None, metadata=json_option("more"))

    def check(self) -> None:
        pass


def test_help_names_the_defaults() -> None:
    """The help text of an option is followed by its default."""
    said = command_line("", Told).format_help()
    assert "in % of all (default: 5)" in said
    assert "--quiet, --no-quiet" in said
    assert "(default: off)" in said
    assert "more" in said
    assert "None" not in said
