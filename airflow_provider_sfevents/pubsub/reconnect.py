"""Retry rules: wait and try again, renew the session, or give up. Pure.

Tries are counted from the last response, whatever it held: a stream that answers is a stream that
works.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_sfevents.pubsub.rpc_errors import TokenRefusedError, is_transient

if TYPE_CHECKING:
    from airflow_provider_sfevents.exceptions import SfEventsError

# The waits before these tries add up to 32 s at most. A caller with a time limit of its own waits
# for that long.
MAX_TRIES = 7
FIRST_WAIT_SECONDS = 0.5
MAX_WAIT_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Try again after so long, with a new session or the same."""

    wait_seconds: float
    renew: bool = False


def next_step(
    error: SfEventsError,
    *,
    tries: int,
    renewed: bool,
    chance: float,
    max_tries: int | None = MAX_TRIES,
) -> Retry | None:
    """Decide whether to try again.

    :param tries: failures since the last response, this one not counted.
    :param renewed: whether the session was renewed since the last response.
    :param chance: from 0 up to 1; spreads the clients that failed together.
    :param max_tries: for a passing error; None: as many as the caller's time allows.
    :returns: None: give up and raise the error.
    """
    if isinstance(error, TokenRefusedError):
        return None if renewed else Retry(wait_seconds=0.0, renew=True)
    if not is_transient(error) or (max_tries is not None and tries + 1 >= max_tries):
        return None
    return Retry(wait_seconds=chance * longest_wait(tries))


def pause_seconds(tries: int, chance: float) -> float:
    """Seconds to wait before a call is repeated: at least half of the longest wait.

    :param tries: failures in a row, the last one not counted.
    :param chance: from 0 up to 1; spreads the clients that failed together.
    """
    return longest_wait(tries) * (1 + chance) / 2


def longest_wait(tries: int) -> float:
    """Seconds to wait at most after so many failures in a row."""
    return min(MAX_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2.0 ** min(tries, 16))
