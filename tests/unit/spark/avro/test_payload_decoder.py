"""Choice of an executor's decoder."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.spark.avro.accelerated_decoder import Accelerated
from airflow_provider_sfevents.spark.avro.decoder_needs import is_this_python, lacking
from airflow_provider_sfevents.spark.avro.executor_tasks import payload_decoder
from airflow_provider_sfevents.spark.avro.reference_decoder import Reference
from airflow_provider_sfevents.spark.schema.field_types import Column, FieldType

if TYPE_CHECKING:
    from pathlib import Path


TEXTS = FieldType(kind="array", item=FieldType(kind="string"))


@pytest.mark.parametrize(
    ("accelerated", "avro", "kind", "made"),
    [
        (False, "string", FieldType(kind="string"), Reference),
        (True, "string", FieldType(kind="string"), Accelerated),
        (True, "bytes", FieldType(kind="binary"), Reference),
        (True, {"type": "array", "items": "null"}, TEXTS, Reference),
    ],
)
def test_the_accelerator_decodes_what_it_is_fit_for(
    accelerated: bool, avro: Any, kind: FieldType, made: type
) -> None:
    """The accelerator decodes schemas that it fits, and the reference all others."""
    schema = {"type": "record", "name": "X__e", "fields": [{"name": "A", "type": avro}]}

    columns = [Column(name="A", field="A", type=kind)]
    decode = payload_decoder(json.dumps(schema), columns, accelerated=accelerated)

    assert type(decode) is made


def test_what_a_python_lacks() -> None:
    """Missing modules are found without an import."""
    assert lacking(("json", "no_such_module_at_all")) == ("no_such_module_at_all",)


def test_this_python_is_known_by_its_path_and_by_its_environment(tmp_path: Path) -> None:
    """A link from another folder may be another environment, so it is another Python."""
    link = tmp_path / "python"
    link.symlink_to(sys.executable)

    assert is_this_python(sys.executable)
    assert not is_this_python(str(link))
    assert not is_this_python(str(tmp_path / "missing"))
