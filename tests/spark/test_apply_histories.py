"""Random histories of an org, delivered to real tables.

Each record without a resync entry equals the org's record. Each step takes seconds on Spark, so
there are few; `tests/unit/changes/test_histories.py` checks the same rules with many histories in
memory. `SFEVENTS_HISTORIES_SEED` takes the seed that a failure prints.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, note, seed, settings

from airflow_provider_sfevents.spark.changes.tables import APPLY_ORDER
from tests.harness.jars import or_skip
from tests.histories.delivery import MOVES, Delivery, Move
from tests.histories.doubt import Doubt
from tests.histories.histories import Step, Transaction, told, transactions
from tests.histories.org import PREFIXES
from tests.histories.seeds import REPEATED_BY, SEED
from tests.histories.spark_lake import SparkLake

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.harness.jars import Jars

pytestmark = [
    pytest.mark.spark,
    pytest.mark.full,
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

EXAMPLES = int(os.environ.get("SFEVENTS_SPARK_HISTORIES") or 1)
"""More on a quiet evening."""
FEW = settings(
    max_examples=EXAMPLES,
    print_blob=True,
    database=None,
    # Shrinking a failure would take hours here.
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


def delivered(history: Sequence[Transaction], moves: Sequence[Move], lake: SparkLake) -> Delivery:
    """Deliver a history in part, then whole, then run entity snapshots; check after each step."""
    org = told(history)
    delivery = Delivery(org=org, lake=lake, doubt=Doubt(starts_empty=lake.new_entities == "empty"))
    for move in moves:
        delivery.move(move)
        delivery.look()
    delivery.batch(Move("batch", silent=True), size=len(org.bus))
    delivery.look()
    for entity in sorted(PREFIXES):
        delivery.resolve(Move("resolve", entity=entity, ahead=99))
    delivery.look()
    delivery.look_at_the_end()
    return delivery


@pytest.mark.parametrize("table_format", ["iceberg", pytest.param("delta", marks=pytest.mark.soak)])
def test_a_history_with_a_death_a_gap_and_a_wildcard_ends_as_the_org(
    table_format: str, jars: Jars, spark: Any, tmp_path: Path
) -> None:
    """Tables equal the org after a kill, an old batch, a gap and an entity snapshot."""
    history = [
        Transaction(
            (
                Step("create", change=2),
                Step("create", change=0),
                Step("create", "Contact", change=1),
            )
        ),
        Transaction((Step("update", change=0), Step("update", "Contact", change=2))),
        Transaction((Step("delete", pick=1), Step("update", change=14, how="gap"))),
        Transaction((Step("convert"), Step("update", change=14))),
    ]
    moves = [
        Move("batch", 3),
        Move("abandon", 1, dies=APPLY_ORDER.index("seen") + 1, repeats=1),
        Move("batch", 3, dies=APPLY_ORDER.index("rows")),
        Move("again", 0),
        Move("batch", 2, silent=True),
        Move("records"),
    ]
    or_skip(lambda: getattr(jars, table_format))
    lake = SparkLake(
        spark=spark, root=str(tmp_path / "lake"), table_format=table_format, new_entities="empty"
    )

    delivered(history, moves, lake)

    assert lake.counts["open_events"]
    assert lake.counts["kept"]


@pytest.mark.soak
def test_histories_end_as_the_org(
    jars: Jars, spark: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Tables equal the org after any history and delivery that Hypothesis makes.

    The seed decides between Delta tables filled by a snapshot and empty Iceberg tables.
    """
    table_format = "iceberg" if SEED % 2 else "delta"
    asked: dict[str, Any] = {"new_entities": "empty", "deletions": "flag"} if SEED % 2 else {}
    or_skip(lambda: getattr(jars, table_format))

    @seed(SEED)
    @FEW
    @given(transactions(), MOVES)
    def check(history: list[Transaction], moves: list[Move]) -> None:
        note(REPEATED_BY)
        root = str(tmp_path_factory.mktemp("lake"))
        lake = SparkLake(spark=spark, root=root, table_format=table_format, **asked)
        delivered(history[:5], moves[:4], lake)

    check()
