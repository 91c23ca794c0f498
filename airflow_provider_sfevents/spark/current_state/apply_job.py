"""The job of `apply.py`: land, apply, and say both in one receipt; or release what is held, and say that."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import NotLandedError
from airflow_provider_sfevents.spark.current_state.apply_batch import apply_batch, flush_transaction
from airflow_provider_sfevents.spark.files import Files
from airflow_provider_sfevents.spark.landing.land_batch import land
from airflow_provider_sfevents.spark.landing.staged_batch import ensure_staged
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.manifest import Manifest, Receipt

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_provider_sfevents.spark.current_state.current_state_options import ApplyOptions
    from airflow_provider_sfevents.spark.landing.landed_batch import LandedBatch
    from airflow_provider_sfevents.spark.landing.landing_options import LandingOptions


def land_and_apply(spark: SparkSession, landing: LandingOptions, options: ApplyOptions) -> Receipt:
    """Land a batch in the event tables, then apply it to those of records; the receipt comes last.

    :raises NotLandedError: another form of the batch has landed than the one that is staged here; nothing is applied.
    """
    if options.flush:
        return _flush(spark, options)

    def apply(receipt: Receipt, landed: LandedBatch) -> Receipt:
        manifest = landed.staged.manifest
        said = (receipt.end or manifest.end, receipt.events)
        if said != (manifest.end, manifest.events):
            raise NotLandedError(
                f"Another form of batch {manifest.batch_id} has landed: it ends at {receipt.end}, and the one that is staged here at "
                f"{manifest.end}. It was fetched where the staging area is another one, and is to be applied from there. Nothing of this form "
                "was applied; give all workers one staging area."
            )
        return replace(receipt, applied=apply_batch(spark, options, landed))

    return land(spark, landing, finish=apply)


def _flush(spark: SparkSession, options: ApplyOptions) -> Receipt:
    """Release what is held, and say so in the receipt that is there.

    :raises NotLandedError: there is none.
    """
    files = Files(spark)
    ensure_staged(files, options.manifest_url)
    manifest = Manifest.from_json(files.read_text(options.manifest_url), options.manifest_url)
    url = f"{options.manifest_url.rpartition('/')[0]}/{layout.RECEIPT}"
    if not files.exists(url):
        raise NotLandedError(
            f"There is no receipt at {url}: the batch has not landed, so nothing of it can be held."
        )
    before = Receipt.from_json(files.read_text(url), url)
    counts = flush_transaction(spark, options, manifest)
    receipt = replace(
        before,
        applied={**(before.applied or {}), **counts},
        written_at=datetime.now(UTC).isoformat(),
    )
    files.write_staged(url, receipt.to_json())
    return receipt
