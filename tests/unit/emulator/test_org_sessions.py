"""Tokens: retention, and what a session shows."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow_provider_sfevents.emulator.emulator_clock import EmulatorClock
from airflow_provider_sfevents.emulator.state.org_sessions import OrgSession, OrgSessions

LOGINS = 2_500


def _issue(sessions: OrgSessions) -> OrgSession:
    return sessions.issue(
        org_id="00DgL0000005NSAUA2",
        instance_url="http://127.0.0.1",
        user_id="005",
        username="u",
        client="",
    )


def test_weeks_of_logins_are_not_kept() -> None:
    """Long expired tokens are dropped; used ones and those of connected clients stay."""
    clock = EmulatorClock(datetime(2026, 1, 1, tzinfo=UTC))
    sessions = OrgSessions(clock=clock, idle_hours=2)
    used = _issue(sessions)
    old: list[str] = []
    for _ in range(8):
        old += [_issue(sessions).token for _ in range(LOGINS)]
        clock.advance(days=5)
        assert sessions.prolong(used.token)
    assert sessions.find(old[-1]) is None
    known = [token for token in old if sessions.prolong(token)]
    assert known == old[-len(known) :]
    assert LOGINS <= len(known) <= 4 * LOGINS


def test_a_session_does_not_show_its_token() -> None:
    """The text form of a session has its user and no secret."""
    session = _issue(OrgSessions(clock=EmulatorClock(), idle_hours=2))
    assert session.token not in repr(session)
    assert "00DgL0000005NSAUA2" in repr(session)
