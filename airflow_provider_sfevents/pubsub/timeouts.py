"""How long the client waits for a service that may be dead. One value, so that whoever knows a quicker service can say so."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Every default goes by what the service promises or is known to do.

    :param answer_seconds: for the answer to a call, all its tries together. An answer takes a round trip; who waits longer is waiting
        for a connection that will not come.
    :param silence_seconds: for a stream to say anything. A keepalive comes at least every 270 s, so one silent for longer is dead,
        whatever the connection says.
    :param rest_seconds: for the service to end a stream after a half-close, which takes it a third of a second; then it is cancelled.
    :param ping_every_seconds: of silence on the connection, before it is asked whether it lives; live clients ask this often.
    :param ping_timeout_seconds: for the answer to that.
    :param slot_seconds: for a managed subscription that another client has: a slot is free within 15 s of a half-close.
    :param propagation_seconds: for a managed subscription that the service does not know: one just made takes it some minutes.
    :param commit_seconds: for the answer to a commit of a managed subscription, which takes it a second.
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
        """Within which a connection that died without a word is noticed."""
        return self.ping_every_seconds + self.ping_timeout_seconds
