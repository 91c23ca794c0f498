"""Choice of an executor's decoder, by the modules of its Python."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.avro.decoder_needs import (
    ACCELERATOR,
    EXECUTORS_NEED,
    lacking,
    wheels_missing,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_sfevents.spark.avro.reference_decoder import PayloadDecoder
    from airflow_provider_sfevents.spark.schema.field_types import Column

logger = logging.getLogger(__name__)


def check_wheels(*, accelerated: bool) -> None:
    """Check the modules that decoding needs, before rows are decoded.

    :raises ConfigurationError: an executor's Python lacks one; the message has the remedy.
    """
    more = (ACCELERATOR,) if accelerated else ()
    missing = wheels_missing(sys.executable, lacking((*EXECUTORS_NEED, *more)))
    if missing:
        raise ConfigurationError(missing)


def payload_decoder(
    schema_json: str, columns: Sequence[Column], *, accelerated: bool
) -> PayloadDecoder:
    """Make the decoder of a schema: the accelerator if it is there and fits, or the reference."""
    from airflow_provider_sfevents.spark.avro.reference_decoder import Reference

    if not accelerated:
        return Reference(schema_json, columns)
    from airflow_provider_sfevents.spark.avro.accelerated_decoder import Accelerated
    from airflow_provider_sfevents.spark.avro.arrow_conversion import left_to_reference

    if reason := left_to_reference(schema_json, columns):
        logger.info("Decoded record by record: %s.", reason)
        return Reference(schema_json, columns)
    return Accelerated(schema_json, columns)
