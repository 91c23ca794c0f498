"""Landing and applying in sessions of a Spark Connect server, by the tests of classic sessions."""

from __future__ import annotations

import pytest

from tests.spark.connected import server_url, spark
from tests.spark.test_landing import test_each_event_type_lands_in_its_own_table
from tests.spark.test_tables import test_each_landing_is_one_commit_for_each_table

__all__ = [
    "server_url",
    "spark",
    "test_each_event_type_lands_in_its_own_table",
    "test_each_landing_is_one_commit_for_each_table",
]

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
