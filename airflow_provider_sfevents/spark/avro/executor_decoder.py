"""Choice of an executor's decoder, by the modules of its Python."""

from __future__ import annotations

import logging
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.avro.decoder_needs import (
    ACCELERATOR,
    EXECUTORS_NEED,
    wheels_missing,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_sfevents.spark.avro.reference_decoder import PayloadDecoder
    from airflow_provider_sfevents.spark.schema.field_types import Column

logger = logging.getLogger(__name__)


def is_this_python(named: str) -> bool:
    """Return whether a name or path stands for this process's interpreter and environment.

    The Python of an environment is a link to one that other environments have, too, so the folder
    counts.
    """
    found = shutil.which(named)
    if not found or not sys.executable:
        return False
    ours = Path(sys.executable).absolute()
    there = Path(found).absolute()
    return there.parent == ours.parent and there.samefile(ours)


def lacking(names: Sequence[str]) -> tuple[str, ...]:
    """Return those of the modules that this Python does not have."""
    return tuple(name for name in names if find_spec(name) is None)


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
