"""Known deviations of the emulator from a source, test by test.

Each is a strict expected failure, which fails the suite once it passes and must then be removed.
All are conflicts between Salesforce's documentation and live orgs, or between two of its pages; the
emulator then follows the live orgs and the newer page, and the knobs for the other source are
named. On a real org no failure is expected.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from typing_extensions import override


class Deviation(NamedTuple):
    """Reason why a test fails.

    :param why: what the emulator does, and who says so.
    :param knobs: with these it passes.
    """

    why: str
    knobs: dict[str, Any]

    @override
    def __str__(self) -> str:
        return (
            f"{self.why}; {', '.join(f'`{name}={value!r}`' for name, value in self.knobs.items())}"
        )


EMULATOR: dict[str, Deviation] = {
    "test_topics::test_an_unknown_topic_is_not_found": Deviation(
        "live orgs refuse it", {"unknown_topic": "NOT_FOUND"}
    ),
    "test_subscribe::test_more_than_100_outstanding_is_refused": Deviation(
        "documented: treated as 100", {"over_limit": "reject"}
    ),
    "test_silence::test_a_running_stream_ends_with_its_session": Deviation(
        "documented: it survives", {"expiry_ends_streams": True}
    ),
    "test_publish::test_an_idle_publish_stream_is_swept_after_70_seconds": Deviation(
        "the newer page says 1,800 s", {"publish_idle_seconds": 70}
    ),
    "test_logins::test_an_assertion_may_not_be_good_for_more_than_three_minutes": Deviation(
        "live orgs take five", {"jwt_max_seconds": 180}
    ),
    "test_cometd_refused::test_versions_before_37_are_refused": Deviation(
        "the newer page says that they are routed to the newest", {"cometd_min_version": 37.0}
    ),
    "test_cometd_refused::test_an_unknown_replay_id_with_one_space": Deviation(
        "live orgs have two", {"cometd_replay_error_spaces": 1}
    ),
    "test_changes::test_there_are_nine_kinds_of_change": Deviation(
        "live orgs have SNAPSHOT too", {"snapshot_symbol": False}
    ),
    "test_changes::test_a_change_event_has_no_id": Deviation(
        "live orgs give it a UUID", {"change_event_ids": False}
    ),
}
"""By test, as `module::function[parameters]`."""
