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
from airflow_provider_sfevents.staging.manifest import AVRO, JSON

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_sfevents.spark.avro.reference_decoder import PayloadDecoder
    from airflow_provider_sfevents.spark.schema.field_types import Column
    from airflow_provider_sfevents.staging.manifest import PayloadFormat

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
    schema_json: str,
    columns: Sequence[Column],
    *,
    accelerated: bool,
    payload_format: PayloadFormat = AVRO,
) -> PayloadDecoder:
    """Make the decoder of a schema: of messages, the accelerator where it fits, or the reference.

    :param payload_format: of the payloads.
    """
    from airflow_provider_sfevents.spark.avro.json_decoder import JsonMessages
    from airflow_provider_sfevents.spark.avro.reference_decoder import Reference

    if payload_format == JSON:
        return JsonMessages(schema_json, columns)
    if not accelerated:
        return Reference(schema_json, columns)
    from airflow_provider_sfevents.spark.avro.accelerated_decoder import Accelerated
    from airflow_provider_sfevents.spark.avro.arrow_conversion import left_to_reference

    if reason := left_to_reference(schema_json, columns):
        logger.info("Decoded record by record: %s.", reason)
        return Reference(schema_json, columns)
    return Accelerated(schema_json, columns)
