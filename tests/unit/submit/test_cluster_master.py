from __future__ import annotations

import errno
import os
import socket

import pytest

from airflow_provider_sfevents.exceptions import TransportError
from airflow_provider_sfevents.submit.cluster_master import check_answers


class Network:
    """Hosts that are up; all others refuse."""

    def __init__(self, *up: str) -> None:
        self.up = up
        self.asked: list[tuple[str, int]] = []

    def connect(self, host: str, port: int) -> None:
        self.asked.append((host, port))
        if host not in self.up:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))


def test_one_master_of_several_is_enough() -> None:
    """The others stand by, or are down."""
    network = Network("b")
    check_answers("spark://a:7077,b:7078,c:7079", network.connect)
    assert network.asked == [("a", 7077), ("b", 7078)]


def test_no_master_is_one_line() -> None:
    """It says which, why, and that nothing was spent; and it is an error that a retry may mend."""
    with pytest.raises(TransportError) as raised:
        check_answers("spark://a:7077,b:7078", Network().connect)
    assert str(raised.value) == (
        "Spark's master at spark://a:7077,b:7078 does not answer (a:7077: Connection refused; b:7078: Connection refused). Nothing was "
        "fetched. Start it, or let the Spark connection name the one that is running; then run the task again."
    )


@pytest.mark.parametrize("master", ["local[2]", "yarn", "k8s://https://k:443"])
def test_others_are_not_asked(master: str) -> None:
    """Their addresses are not in the URL, or not for us."""
    network = Network()
    check_answers(master, network.connect)
    assert network.asked == []


def test_a_real_connection() -> None:
    """A port that somebody listens on, and the same port when nobody does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        check_answers(f"spark://127.0.0.1:{port}")
    with pytest.raises(TransportError, match="Connection refused"):
        check_answers(f"spark://127.0.0.1:{port}")
