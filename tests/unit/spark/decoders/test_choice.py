"""Which decoder is chosen, and what is said of one that cannot be had."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.decoders.choice import Available, Wanted, checked, choose

EVERYTHING: dict[str, Any] = {"spark_avro": True, "limited": True}


@pytest.mark.parametrize(
    ("wanted", "lacks", "name", "on_executor"),
    [
        ("auto", {}, "jvm", "arrow"),
        ("auto", {"executors_lack": ("pyruhvro",)}, "jvm", "python"),
        ("auto", {"spark_avro": False}, "arrow", "arrow"),
        ("auto", {"limited": False}, "arrow", "arrow"),
        ("auto", {"spark_avro": False, "executors_lack": ("pyruhvro",)}, "python", "python"),
        ("jvm", {"executors_lack": ("pyruhvro",)}, "jvm", "python"),
        ("arrow", {"spark_avro": False}, "arrow", "arrow"),
        ("python", {"executors_lack": ("pyruhvro",)}, "python", "python"),
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
    ("wanted", "lacks", "name"),
    [
        ("auto", {}, "arrow"),
        ("auto", {"executors_lack": ("pyruhvro",)}, "python"),
        ("jvm", {}, "jvm"),
    ],
)
def test_what_goes_to_python_anyway_is_decoded_there(
    wanted: Wanted, lacks: dict[str, Any], name: str
) -> None:
    """Unless the other is asked for by name."""
    choice = choose(wanted, Available(**{**EVERYTHING, **lacks}), for_python=True)

    assert choice.name == name


@pytest.mark.parametrize(
    ("wanted", "lacks", "remedy"),
    [
        ("jvm", {"spark_avro": False}, "--packages org.apache.spark:spark-avro"),
        ("jvm", {"limited": False}, r"-Dorg\.apache\.avro\.limits\.string\.maxLength=16777216 .*"),
        (
            "arrow",
            {"executors_lack": ("pyruhvro",)},
            r"no pyruhvro\..*spark\.archives.*extra `accelerator`",
        ),
    ],
)
def test_one_that_cannot_be_had_is_refused_with_the_remedy(
    wanted: Wanted, lacks: dict[str, Any], remedy: str
) -> None:
    """In one line; never another in its place."""
    with pytest.raises(ConfigurationError, match=remedy) as refused:
        choose(wanted, Available(**{**EVERYTHING, **lacks}))

    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("wanted", ["auto", "jvm", "arrow", "python"])
@pytest.mark.parametrize(
    ("lacks", "said"),
    [
        (
            {"driver_lacks": ("pandas", "pyarrow")},
            r"^The driver's Python has no pandas and no pyarrow\. Install",
        ),
        (
            {"executors_lack": ("pyarrow", "fastavro"), "python": "/usr/bin/python3"},
            r"^The executors' Python \(/usr/bin/python3\) has no fastavro and no pyarrow\..*image.*spark\.archives",
        ),
        ({"executors_lack": ("airflow_provider_sfevents", "fastavro")}, "--py-files"),
    ],
    ids=["driver", "executors", "package"],
)
def test_what_every_decoder_needs_is_named_in_one_line(
    wanted: Wanted, lacks: dict[str, Any], said: str
) -> None:
    """Whichever is asked for; before anything is read."""
    with pytest.raises(ConfigurationError, match=said) as refused:
        choose(wanted, Available(**{**EVERYTHING, **lacks}))

    assert "\n" not in str(refused.value)


def test_there_are_four_names() -> None:
    """Another is refused with these."""
    assert checked("jvm") == "jvm"
    with pytest.raises(ConfigurationError, match=r"'rust'.*auto, jvm, arrow, python"):
        checked("rust")
