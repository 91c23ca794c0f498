"""Each mistake fails before any delivery, with one message: thing, value, remedy."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_sfevents.emulator import Emulator
from airflow_provider_sfevents.operators.chain import SfEventsFetchOperator
from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator
from airflow_provider_sfevents.positions import record
from airflow_provider_sfevents.staging.manifest import Run
from tests.integration.operators.conftest import ORDERS, SECRETS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.integration.operators.conftest import Task

KEY = "sfevents.orders.event.Order__e"


@pytest.fixture(autouse=True)
def nothing_spent(bus: Emulator, over_tls: Emulator, task: Task) -> Iterator[None]:
    """Check after each test: nothing is delivered, staged, or written as a position."""
    before = bus.deliveries(), over_tls.deliveries()
    yield
    assert (bus.deliveries(), over_tls.deliveries()) == before
    assert (bus.open_streams, over_tls.open_streams) == (0, 0)
    assert task.left_behind == []
    assert task.positions == task.placed


def fails_for_good(task: Task, *said: str, **arguments: Any) -> str:
    """Assert that the task fails for good, with all of these in the message."""
    with pytest.raises(AirflowFailException) as raised:
        task.execute(**arguments)
    return having(str(raised.value), *said)


def fails_for_now(task: Task, *said: str, **arguments: Any) -> str:
    """Assert that the task fails and may be retried, with all of these in the message."""
    with pytest.raises(AirflowException) as raised:
        task.execute(**{"max_seconds": 1, **arguments})
    assert not isinstance(raised.value, AirflowFailException)
    return having(str(raised.value), *said)


def having(message: str, *said: str) -> str:
    missing = [part for part in said if part not in message]
    assert missing == [], message
    return message


@pytest.mark.parametrize(
    ("topic", "said"),
    [
        ("/event/Oder__e", ("/event/Oder__e", "Check the topic's spelling")),
        (SECRETS, (SECRETS, "Grant read permission on the event")),
    ],
    ids=["unknown", "no permission"],
)
def test_topic(task: Task, topic: str, said: tuple[str, ...]) -> None:
    """A topic that does not exist, or that this user may not use, fails for good."""
    fails_for_good(task, *said, topic=topic)


@pytest.mark.parametrize(
    ("rendered", "said"),
    [
        ({"topic": ""}, "'' is no topic"),
        ({"topic": None}, "The topic None is no topic"),
        ({"initial_replay": None}, "The start None is no replay id"),
        ({"until": 7}, "until=7 is not a time"),
        ({"topic": "/event/Order__e "}, "'/event/Order__e '"),
        ({"initial_replay": "yesterday"}, "'earliest', 'latest'"),
        ({"initial_replay": "00ff"}, "it has 2 bytes, and theirs have 8 or 10"),
    ],
)
def test_what_a_template_makes_is_judged_too(
    task: Task, rendered: dict[str, Any], said: str
) -> None:
    """An argument from a template is checked after rendering, before the fetch."""
    operator, run = task.prepare(SfEventsToSparkOperator)
    for name, value in rendered.items():
        setattr(operator, name, value)
    with pytest.raises(AirflowFailException) as raised:
        run()
    having(str(raised.value), said)


def test_no_such_connection(task: Task) -> None:
    """The error for an unknown connection id names it."""
    fails_for_good(task, "'salesforce' is not defined", "type `sfevents`", conn_id="salesforce")


def test_connection_of_another_type(task: Task, bus: Emulator) -> None:
    """A connection of another type is refused."""
    task.connect("sfevents_default", {**bus.connection(), "conn_type": "http"})
    fails_for_good(task, "'sfevents_default'", "type 'http'", "`sfevents`")


def test_wrong_secret(task: Task, bus: Emulator) -> None:
    """The error for a wrong secret names host, key and remedy, and no secret."""
    task.connect("sfevents_default", {**bus.connection(), "password": "not-the-secret"})
    message = fails_for_good(task, bus.my_domain_url, "The consumer secret is wrong")
    assert "not-the-secret" not in message
    assert bus.org.consumer_secret not in message


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("replay_id", "", "`replay_id` is ''"),
        ("replay_id", "00 1f", "`replay_id` is '00 1f'"),
        ("replay_id", "LATEST", "`replay_id` is 'LATEST'"),
        ("batch_number", "3", "`batch_number` is '3'"),
        ("batch_number", -1, "`batch_number`"),
        ("org_id", "00D000000000009AAA", "00D000000000009AAA"),
        ("owner", "orders.other", "belongs to task orders.other"),
    ],
)
def test_position_edited_by_hand(
    task: Task, bus: Emulator, field: str, value: object, said: str
) -> None:
    """An invalid position is refused, shown, and left unchanged."""
    task.place(KEY, json.dumps({**json.loads(position(bus)), field: value}))
    fails_for_good(task, KEY, said)


@pytest.mark.parametrize("text", ["", "earliest", "[]", "{}"])
def test_position_that_is_none(task: Task, text: str) -> None:
    """Text that is no position is not taken for a first run."""
    task.place(KEY, text)
    fails_for_good(task, KEY, "does not hold a position", "Nothing was fetched")


def position(bus: Emulator, start: str = "earliest") -> str:
    begun = record.begin(
        org_id=bus.org.org_id,
        instance_url=bus.org.instance_url,
        topic=ORDERS,
        consumer="orders",
        start=start,
        at="2026-01-01T00:00:00+00:00",
        by=Run(dag="orders", task="land"),
    )
    return begun.to_json()


def test_until(task: Task) -> None:
    """A rendered `until` that is no time, or has no time zone, is refused."""
    fails_for_good(task, "until='tomorrow' is not a time", "ISO 8601", until="tomorrow")
    fails_for_good(task, "until", "time zone", until="2026-01-01T00:00:00")


def test_staging_that_cannot_be_written(task: Task, tmp_path: Path) -> None:
    """A staging area that cannot be written is refused before the fetch."""
    (tmp_path / "file").write_text("in the way")
    place = (tmp_path / "file" / "staging").as_uri()
    fails_for_now(task, str(tmp_path / "file"), "`staging`", staging=place)


@pytest.mark.parametrize("place", ["nosuch://bucket/path", "s4://bucket"])
def test_staging_of_no_store(task: Task, place: str) -> None:
    """A URL that no installed package supports is refused."""
    fails_for_good(task, f"staging={place!r} cannot be opened", "file:///path", staging=place)


@pytest.mark.parametrize("kind", [SfEventsToSparkOperator, SfEventsFetchOperator])
def test_staging_in_memory(task: Task, kind: type[object]) -> None:
    """A staging area in memory is refused, because Spark cannot read it."""
    fails_for_good(
        task, "'memory://staging'", "file:///path", staging="memory://staging", kind=kind
    )


def test_staging_on_this_machine_for_a_remote_spark(task: Task) -> None:
    """A local folder for a Spark elsewhere is refused unless declared shared."""
    task.connect("spark_default", {"conn_type": "spark", "host": "spark://cluster", "port": 7077})
    fails_for_good(task, task.staging.as_uri(), "spark://cluster:7077", "staging_shared=True")


def test_no_spark_connection(task: Task) -> None:
    """A missing Spark connection is an error; Airflow's own operator would use YARN."""
    fails_for_good(
        task, "'spark_nowhere' is not defined", "spark_conn_id", spark_conn_id="spark_nowhere"
    )


def test_no_spark_submit(task: Task) -> None:
    """The error for a missing spark-submit names the binary and the remedy."""
    fails_for_good(
        task, "spark3-submit was not found", "spark_binary", spark_binary="spark3-submit"
    )


def test_a_spark_connection_that_airflow_refuses(task: Task) -> None:
    """A connection that Airflow's hook refuses is refused before the fetch."""
    spark = {"conn_type": "spark", "host": "local[2]"}
    task.connect("spark_default", spark, **{"spark-binary": "/opt/spark/bin/spark-submit"})
    fails_for_good(task, "'spark_default'", "/opt/spark/bin/spark-submit")


def test_two_versions_of_spark(task: Task, tmp_path: Path) -> None:
    """Different versions of pyspark's two packages are refused before the fetch."""
    other = tmp_path / "pyspark_client-4.0.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: pyspark-client\nVersion: 4.0.0\n")
    task.monkeypatch.syspath_prepend(str(tmp_path))
    fails_for_good(task, "pyspark-client is 4.0.0", "pip install")


def test_expired_replay_id(task: Task) -> None:
    """A position older than the bus keeps events is refused."""
    with Emulator(sample=True) as old:
        task.connect("sfevents_default", old.connection())
        first = old.publish(ORDERS, [{"Order_Number__c": "A-1"}])[0].hex()
        old.clock.advance(hours=80)
        old.publish(ORDERS, [{"Order_Number__c": "A-2"}])
        task.place(KEY, position(old, first))
        choices = (f"{ORDERS} earliest", f"{ORDERS} latest")
        fails_for_good(task, first, "72 hours", "position was not moved", *choices)
        assert (old.deliveries(), old.open_streams) == (0, 0)
