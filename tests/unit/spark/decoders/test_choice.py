"""Which decoder is chosen, and what is said of one that cannot be had."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.decoders.choice import Available, Wanted, checked, choose

EVERYTHING: dict[str, Any] = {"spark_avro": True, "limited": True, "accelerator": ()}


@pytest.mark.parametrize(
    ("wanted", "lacks", "name", "on_executor"),
    [
        ("auto", {}, "jvm", "arrow"),
        ("auto", {"accelerator": ("pyruhvro",)}, "jvm", "python"),
        ("auto", {"spark_avro": False}, "arrow", "arrow"),
        ("auto", {"limited": False}, "arrow", "arrow"),
        ("auto", {"spark_avro": False, "accelerator": ("pyruhvro",)}, "python", "python"),
        ("jvm", {"accelerator": ("numpy",)}, "jvm", "python"),
        ("arrow", {"spark_avro": False}, "arrow", "arrow"),
        ("python", {"accelerator": ("numpy",)}, "python", "python"),
    ],
)
def test_the_first_that_can_be_had(
    wanted: Wanted, lacks: dict[str, Any], name: str, on_executor: str
) -> None:
    """Of jvm, arrow and python; or the one that is asked for."""
    choice = choose(wanted, Available(**{**EVERYTHING, **lacks}))

    assert (choice.name, choice.on_executor) == (name, on_executor)
    assert choice.why


@pytest.mark.parametrize(
    ("wanted", "lacks", "remedy"),
    [
        ("jvm", {"spark_avro": False}, "--packages org.apache.spark:spark-avro"),
        ("jvm", {"limited": False}, r"-Dorg\.apache\.avro\.limits\.string\.maxLength=16777216 .*"),
        ("arrow", {"accelerator": ("pyruhvro", "numpy")}, "no pyruhvro and no numpy.*--archives"),
    ],
)
def test_one_that_cannot_be_had_is_refused_with_the_remedy(
    wanted: Wanted, lacks: dict[str, Any], remedy: str
) -> None:
    """In one line; never another in its place."""
    with pytest.raises(ConfigurationError, match=remedy) as refused:
        choose(wanted, Available(**{**EVERYTHING, **lacks}))

    assert "\n" not in str(refused.value)


def test_there_are_four_names() -> None:
    """Another is refused with these."""
    assert checked("jvm") == "jvm"
    with pytest.raises(ConfigurationError, match=r"'rust'.*auto, jvm, arrow, python"):
        checked("rust")
