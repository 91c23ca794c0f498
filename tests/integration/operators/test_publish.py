"""Publishing from a task: sources of records, retries, and errors."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from typing_extensions import override

from airflow_provider_sfevents.emulator import Emulator, Knobs
from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.hooks.sfevents import SfEventsHook
from airflow_provider_sfevents.operators.publish import SfEventsPublishOperator
from airflow_provider_sfevents.pubsub.bounds import Bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.integration.operators.conftest import Task

PARCELS = "/event/Parcel__e"
FIELDS = {
    "Number__c": "Text",
    "Weight__c": "Number",
    "Sent_At__c": "DateTime",
    "Due__c": "Date",
    "Fragile__c": "Checkbox",
}
SENT = datetime(2026, 1, 31, 12, 30, tzinfo=UTC)


@dataclass(slots=True, kw_only=True)
class Here:
    """A task that publishes to a topic of the test's own."""

    task: Task
    topic: str

    def publish(self, **arguments: Any) -> dict[str, Any]:
        """One try of the task; always of the same run."""
        _, run = self.prepare(**arguments)
        done: dict[str, Any] = run()
        return done

    def prepare(self, **arguments: Any) -> tuple[Any, Callable[[], Any]]:
        known = {"task_id": "publish", "topic": self.topic}
        return self.task.prepare_alone(SfEventsPublishOperator, **{**known, **arguments})

    def on_the_bus(self) -> list[tuple[str, dict[str, Any]]]:
        """Id and fields of all published events, in order."""
        bounds = Bounds(max_seconds=120, idle_seconds=0.2)
        events = SfEventsHook().fetch(self.topic, "earliest", bounds).events
        return [(event.id, event.decode()) for event in events]

    def numbers(self) -> list[str]:
        return [fields["Number__c"] for _, fields in self.on_the_bus()]


@pytest.fixture(scope="module")
def bus() -> Iterator[Emulator]:
    with Emulator(knobs=Knobs(half_close_seconds=0.01, max_event_bytes=2_000)) as bus:
        bus.define_entity("Account", {"Name": "Text"})
        yield bus
        bus.check()


@pytest.fixture
def here(task: Task, bus: Emulator, tmp_path: Path) -> Here:
    name = f"T{hashlib.sha256(str(tmp_path).encode()).hexdigest()[:12]}__e"
    bus.define_event(name, FIELDS)
    return Here(task=task, topic=f"/event/{name}")


def parcels(count: int) -> list[dict[str, Any]]:
    return [{"Number__c": f"P-{number}", "Weight__c": number / 2} for number in range(1, count + 1)]


def test_records_of_another_task(here: Here) -> None:
    """Records arrive in order with creator and time; the result is a few figures."""
    given = [{**one, "Sent_At__c": SENT, "Fragile__c": False} for one in parcels(450)]
    done = here.publish(records=given)
    found = here.on_the_bus()
    assert [fields["Number__c"] for _, fields in found] == [one["Number__c"] for one in given]
    fields = found[0][1]
    assert fields["Sent_At__c"] == int(SENT.timestamp() * 1000)
    assert fields["CreatedById"].startswith("005")
    assert abs(fields["CreatedDate"] / 1000 - datetime.now(UTC).timestamp()) < 600
    counts = {name: done[name] for name in ("records", "published", "before", "repeated", "failed")}
    assert counts == {"records": 450, "published": 450, "before": 0, "repeated": 0, "failed": 0}
    assert len(json.dumps(done)) < 600


def test_replay_ids_in_the_result(here: Here) -> None:
    """The result has the replay ids of the first and the last record."""
    done = here.publish(records=parcels(3))
    hook = SfEventsHook()
    after = hook.fetch(
        here.topic, done["first_replay_id"], Bounds(max_seconds=120, idle_seconds=0.2)
    )
    assert [event.decode()["Number__c"] for event in after.events] == ["P-2", "P-3"]
    assert after.events[-1].replay_id == done["last_replay_id"]


def test_trying_again_sends_nothing_twice(here: Here) -> None:
    """A cleared task that had succeeded publishes nothing, and returns its earlier counts."""
    first = here.publish(records=parcels(5))
    again = here.publish(records=parcels(5))
    assert (again["published"], again["before"]) == (0, 5)
    assert again["last_replay_id"] == first["last_replay_id"]
    assert len(here.on_the_bus()) == 5
    more = here.publish(records=[*parcels(5), {"Number__c": "P-6"}])
    assert (more["published"], more["before"]) == (1, 5)


def test_the_next_try_sends_what_is_missing(here: Here, bus: Emulator) -> None:
    """After a lost stream the next try sends the events without an answer, under the same ids."""
    bus.fail_next("PublishStream", after=400, error_code="publish.topic.mismatch")
    with pytest.raises(AirflowException) as raised:
        here.publish(records=parcels(1_000))
    assert not isinstance(raised.value, AirflowFailException)
    assert "May be on the bus, since the answer is lost: records" in str(raised.value)
    assert "A retry of the task sends the rest under the same ids." in str(raised.value)
    before = len(here.on_the_bus())
    assert 400 <= before < 1_000
    done = here.publish(records=parcels(1_000))
    found = here.on_the_bus()
    assert done["published"] + done["before"] == 1_000
    assert done["before"] > 0
    ids = Counter(event_id for event_id, _ in found)
    assert len(ids) == 1_000
    # Sent, and not answered before the stream was lost.
    assert sum(ids.values()) - len(ids) == before - done["before"]


def test_what_is_refused_for_good_fails_the_task(here: Here) -> None:
    """Refused events fail the task after all others, with number, id and reason."""
    large = {"Number__c": "x" * 3_000}
    given = [*parcels(3), large, large, *parcels(1)]
    with pytest.raises(AirflowException, match="2 of 6 events refused") as raised:
        here.publish(records=given)
    message = str(raised.value)
    assert not isinstance(raised.value, AirflowFailException)
    assert "record 4 (event id " in message
    assert "bytes; the limit is 2000" in message
    assert len(message) < 2_000
    assert here.numbers() == ["P-1", "P-2", "P-3", "P-1"]


def test_everything_wrong_is_said_before_anything_is_sent(here: Here) -> None:
    """All records' mistakes are in one message before anything is sent, without a retry."""
    wrong = [
        {"Numbr__c": "a"},
        {"Weight__c": "heavy"},
        {"Sent_At__c": datetime(2026, 1, 31), "Due__c": "soon"},  # noqa: DTZ001 - what is refused
    ]
    with pytest.raises(AirflowFailException) as raised:
        here.publish(records=[*parcels(2), *wrong])
    message = str(raised.value)
    for said in (
        "3 of 5 records",
        "record 3: 'Numbr__c' is no field of the event; is it Number__c?",
        "record 4: Weight__c is 'heavy'; it must be a number",
        "record 5: Sent_At__c is datetime.datetime(2026, 1, 31, 0, 0); "
        "it must be a time with its time zone",
        "record 5: Due__c is 'soon'; it must be a date",
    ):
        assert said in message
    assert here.on_the_bus() == []
    assert here.task.left_behind == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"records": "P-1"}, "records='P-1' is no list of records"),
        ({"records": {"Number__c": "P-1"}}, "is no list of records"),
        ({"records": [{}], "topic": "/event/Parcle__e"}, "/event/Parcle__e"),
        ({"records": [{}], "topic": "/data/AccountChangeEvent"}, "takes no events of this user"),
        ({"records": [{}], "conn_id": "nowhere"}, "'nowhere' is not defined"),
        ({"files": " "}, "files=' ' is no URL"),
        ({"files": "file:///no/such/folder"}, "there is no file and no folder with files"),
        ({"files": "nosuch://bucket/x"}, "files='nosuch://bucket/x' cannot be opened"),
    ],
)
def test_a_mistake_is_told(here: Here, arguments: dict[str, Any], said: str) -> None:
    """A wrong argument fails for good, and the message shows it."""
    with pytest.raises(AirflowFailException) as raised:
        here.publish(**arguments)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "either `records` or `files`"),
        ({"records": [], "files": "file:///x"}, "either `records` or `files`"),
        ({"files": 7}, "files is 7. Give text"),
        ({"records": [], "topic": "Parcel__e"}, "'Parcel__e' is no topic"),
    ],
)
def test_a_mistake_in_the_dag(arguments: dict[str, Any], said: str) -> None:
    """A wrong constant is refused at parse time."""
    with pytest.raises(ConfigurationError, match=said):
        SfEventsPublishOperator(**{"task_id": "publish", "topic": PARCELS, **arguments})


def test_nothing_to_publish(here: Here) -> None:
    """Without records no stream is opened."""
    done = here.publish(records=[])
    assert (done["records"], done["published"], done["first_replay_id"]) == (0, 0, "")
    assert here.on_the_bus() == []


def test_a_used_up_allowance(here: Here) -> None:
    """A used-up allowance fails for good; published events are in the ledger."""
    with Emulator(knobs=Knobs(half_close_seconds=0.01, publish_allocation=300)) as limited:
        limited.define_event("Parcel__e", FIELDS)
        here.topic = PARCELS
        here.task.connect("sfevents_default", limited.connection())
        with pytest.raises(AirflowFailException, match="LIMIT_EXCEEDED"):
            here.publish(records=parcels(500))
        assert len(here.on_the_bus()) == 300
        limited.check()
    [ledger] = here.task.staging.rglob("*.jsonl")
    assert len(ledger.read_text().splitlines()) == 300


def test_ending_the_task(here: Here) -> None:
    """After a stop pending answers are recorded, and the next try sends the rest."""
    given = _Ends(parcels(1_000), at=500)
    operator, run = here.prepare(records=given)
    given.task = operator
    with pytest.raises(AirflowException, match=r"was ended .*; \d+ events published so far"):
        run()
    before = len(here.on_the_bus())
    assert 400 <= before < 1_000
    done = here.publish(records=parcels(1_000))
    assert (done["before"], done["published"]) == (before, 1_000 - before)


class _Ends(list[dict[str, Any]]):
    """Records during whose second reading the task is ended."""

    def __init__(self, records: list[dict[str, Any]], at: int) -> None:
        super().__init__(records)
        self._at = at
        self._reads = 0
        self.task: SfEventsPublishOperator | None = None

    @override
    def __iter__(self) -> Iterator[dict[str, Any]]:
        self._reads += self.task is not None
        for number in range(len(self)):
            if self.task is not None and (self._reads, number) == (2, self._at):
                self.task.on_kill()
            yield self[number]


# --- files ----------------------------------------------------------------------------------------


def test_json_lines(here: Here, tmp_path: Path) -> None:
    """Records are read from a file of JSON lines, with ISO times and without blank lines."""
    file = tmp_path / "parcels.jsonl"
    lines = [json.dumps({**one, "Sent_At__c": "2026-01-31T12:30:00Z"}) for one in parcels(3)]
    file.write_text("\n".join([*lines, "", ""]))
    assert here.publish(files=file.as_uri())["published"] == 3
    assert [fields["Sent_At__c"] for _, fields in here.on_the_bus()] == [
        int(SENT.timestamp() * 1000)
    ] * 3


def test_a_folder_as_spark_writes_it(here: Here, tmp_path: Path) -> None:
    """A folder's files are read by name; markers and checksums are skipped."""
    folder = tmp_path / "parcels"
    folder.mkdir()
    lines = [json.dumps(one) + "\n" for one in parcels(5)]
    (folder / "part-00001.json.gz").write_bytes(gzip.compress("".join(lines[2:]).encode()))
    (folder / "part-00000.json").write_text("".join(lines[:2]))
    (folder / "_SUCCESS").touch()
    (folder / ".part-00000.json.crc").write_bytes(b"crc")
    here.publish(files=folder.as_uri())
    assert here.numbers() == [f"P-{number}" for number in range(1, 6)]


@pytest.mark.parametrize("int96", [True, False], ids=["Spark's INT96", "microseconds"])
def test_parquet(here: Here, tmp_path: Path, *, int96: bool) -> None:
    """Records are read from Parquet with a DataFrame's types."""
    import decimal

    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(
        {
            "Number__c": [f"P-{number}" for number in range(1_200)],
            "Weight__c": pa.array([decimal.Decimal("12.50")] * 1_200, pa.decimal128(10, 2)),
            "Sent_At__c": pa.array([SENT] * 1_200, pa.timestamp("us", "UTC")),
            "Due__c": pa.array([SENT.date()] * 1_200),
            "Fragile__c": [None, True] * 600,
        }
    )
    file = tmp_path / "parcels.snappy.parquet"
    pq.write_table(table, file, use_deprecated_int96_timestamps=int96)
    assert here.publish(files=file.as_uri())["published"] == 1_200
    found = here.on_the_bus()
    assert [fields["Number__c"] for _, fields in found[-2:]] == ["P-1198", "P-1199"]
    fields = found[0][1]
    assert fields["Sent_At__c"] == int(SENT.timestamp() * 1000)
    assert fields["Due__c"] == int(SENT.timestamp()) // 86_400 * 86_400_000
    assert (fields["Weight__c"], fields["Fragile__c"]) == (12.5, None)


def test_what_is_wrong_in_files_is_found_by_line_and_row(here: Here, tmp_path: Path) -> None:
    """A mistake in a file is named by line or row, also a line that is no record."""
    (tmp_path / "a.jsonl").write_text('{"Number__c": 1}\n\n{"Number__c": "P-1"\n[1]\n')
    with pytest.raises(AirflowFailException) as raised:
        here.publish(files=(tmp_path / "a.jsonl").as_uri())
    message = str(raised.value)
    assert "record 1 (a.jsonl, line 1): Number__c is 1; it must be text" in message
    assert 'record 2 (a.jsonl, line 3): is \'{"Number__c": "P-1"\', which is no JSON' in message
    assert "record 3 (a.jsonl, line 4): is [1]" in message


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("notes.txt", b"", "neither JSON lines"),
        ("broken.parquet", b"rubbish that is long enough", "is no Parquet"),
        ("huge.jsonl", b" " * (16 * 1024 * 1024 + 1), "line 1 is longer than"),
    ],
)
def test_files_that_are_none_of_records(
    here: Here, tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    """Files without records are refused with the valid kinds."""
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / name).write_bytes(content)
    with pytest.raises(AirflowFailException, match=said):
        here.publish(files=(tmp_path / "given").as_uri())


def test_ids_of_the_records_own(here: Here, tmp_path: Path) -> None:
    """With `id_field` a retry recognises records in files of another order."""
    file = tmp_path / "parcels.jsonl"
    lines = [json.dumps({**one, "key": f"id of {one['Number__c']}"}) for one in parcels(3)]
    file.write_text("\n".join(lines))
    here.publish(files=file.as_uri(), id_field="key")
    file.write_text("\n".join(reversed(lines)))
    again = here.publish(files=file.as_uri(), id_field="key")
    assert (again["published"], again["before"]) == (0, 3)
    assert [event_id for event_id, _ in here.on_the_bus()] == [
        "id of P-1",
        "id of P-2",
        "id of P-3",
    ]
