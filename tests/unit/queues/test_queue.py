from __future__ import annotations

import subprocess
import sys

import pytest
from airflow.providers.common.messaging.triggers.msg_queue import MessageQueueTrigger

from airflow_provider_sfevents.queues.sfevents import SfEventsMessageQueueProvider
from airflow_provider_sfevents.triggers.sfevents import SfEventsWatchTrigger

WITHOUT = """
import sys
sys.modules["airflow.providers.common.messaging.providers.base_provider"] = None
import airflow_provider_sfevents.queues.sfevents
"""


def test_airflows_message_queue_trigger_watches_a_topic() -> None:
    """`MessageQueueTrigger` with the scheme stores a watcher with the same arguments."""
    queue = MessageQueueTrigger(
        scheme="sfevents", topic="/event/Order__e", consumer="orders", max_wait=1.0
    )
    own = SfEventsWatchTrigger("/event/Order__e", "orders", max_wait=1.0)
    assert queue.serialize() == own.serialize()


@pytest.mark.parametrize("scheme", ["sfevent", "kafka", ""])
def test_other_schemes_are_others(scheme: str) -> None:
    """A queue of another scheme is not accepted."""
    provider = SfEventsMessageQueueProvider()
    assert not provider.scheme_matches(scheme)
    assert not provider.queue_matches(f"{scheme}://topic")


def test_without_the_package_the_extra_is_named() -> None:
    """Without the messaging package the error is Airflow's own kind and names the extra."""
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT], check=False, capture_output=True, text=True
    )
    assert ran.returncode == 1
    assert "AirflowOptionalProviderFeatureException" in ran.stderr.splitlines()[-1]
    assert "airflow-provider-sfevents[messaging]" in ran.stderr.splitlines()[-1]
