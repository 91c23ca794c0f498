"""Timeouts of the client for a service that may be dead.

One value, so that tests with a quicker service pass shorter ones.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Every default follows from what the service promises or is known to do.

    :param answer_seconds: for the answer to a call, all its tries together. An answer takes a round
        trip; a longer wait is one for a connection that will not come.
    :param silence_seconds: for a stream to deliver anything. A keepalive comes at least every 270
        s, so a stream that is silent for longer is dead, whatever the connection reports.
    :param rest_seconds: for the service to end a stream after a half-close, which takes it a third
        of a second; then the stream is cancelled.
    :param ping_every_seconds: of silence on the connection, before a ping checks it; live clients
        ping this often.
    :param ping_timeout_seconds: for the answer to a ping.
    :param slot_seconds: for a managed subscription that another client has: a slot is free within
        15 s of a half-close.
    :param propagation_seconds: for a managed subscription that the service does not know: a new one
        takes some minutes.
    :param commit_seconds: for the answer to a commit of a managed subscription, which takes the
        service a second.
    """

    answer_seconds: float = 8.0
    silence_seconds: float = 300.0
    rest_seconds: float = 10.0
    ping_every_seconds: float = 30.0
    ping_timeout_seconds: float = 10.0
    slot_seconds: float = 60.0
    propagation_seconds: float = 300.0
    commit_seconds: float = 10.0

    @property
    def dead_line_seconds(self) -> float:
        """Time within which a silently dead connection is noticed."""
        return self.ping_every_seconds + self.ping_timeout_seconds
