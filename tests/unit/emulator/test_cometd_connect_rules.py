"""Rules of CometD clients: admission, loss, and the decision on a connect."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_sfevents.emulator.bus.topic import BusTopic
from airflow_provider_sfevents.emulator.cometd.connect_rules import (
    AnswerEmpty,
    ConnectState,
    Deliver,
    Exhausted,
    Hold,
    Lost,
    Step,
    Unauthenticated,
    next_step,
)
from airflow_provider_sfevents.emulator.cometd.meta_channels import Caller, refusal, topic_error
from airflow_provider_sfevents.emulator.state.cometd_clients import CometdClient, CometdClients
from airflow_provider_sfevents.emulator.state.org_sessions import OrgSession

QUIET = ConnectState(
    lost=False, authentic=True, exhausted=False, ready=False, released=False, left=110.0
)
SESSION = OrgSession(
    token="t",
    org_id="00D",
    instance_url="https://x",
    user_id="005A",
    username="u",
    client="key",
    used_at=0.0,
)
GOOD = Caller(version_error="", token="t", session=SESSION, browser="b", server="!s")


@pytest.mark.parametrize(
    ("changed", "step"),
    [
        ({}, Hold(110.0)),
        ({"left": 0.0}, AnswerEmpty()),
        ({"released": True}, AnswerEmpty()),
        ({"ready": True}, Deliver()),
        ({"ready": True, "released": True}, AnswerEmpty()),
        ({"ready": True, "left": 0.0}, Deliver()),
        ({"ready": True, "exhausted": True}, Exhausted()),
        ({"exhausted": True}, Exhausted()),
        ({"ready": True, "authentic": False}, Unauthenticated()),
        ({"lost": True, "authentic": False, "ready": True}, Lost()),
    ],
)
def test_steps_of_a_connect(changed: dict[str, Any], step: Step) -> None:
    """An unauthorised client gets no event; waiting events are sent before the timeout."""
    assert next_step(replace(QUIET, **changed)) == step


def _client(clients: CometdClients, until: float = 40.0, org_id: str = "00D") -> CometdClient:
    return clients.add(
        org_id=org_id, user_id="005A", token="t", browser="b", server="!s", numbering=0, until=until
    )


def test_a_client_is_found_in_its_org_and_time() -> None:
    """A client is found by its id in its own org until it is lost."""
    clients = CometdClients()
    client = _client(clients)
    assert clients.find(client.client_id, "00D", 40.0) is client
    assert clients.find(client.client_id, "00D", 40.1) is None
    assert clients.find(client.client_id, "00E", 0.0) is None
    assert clients.find("other", "00D", 0.0) is None
    assert clients.find(["no", "id"], "00D", 0.0) is None


def test_clients_are_lost_at_their_own_time() -> None:
    """A client with a held connect is never lost; others are lost at their own time."""
    clients = CometdClients()
    assert clients.next_loss() is None
    held, soon, later = _client(clients, math.inf), _client(clients, 40.0), _client(clients, 50.0)
    assert clients.next_loss() == 40.0
    assert clients.lost(45.0) == [soon]
    clients.remove(soon)
    assert (clients.next_loss(), clients.lost(45.0)) == (50.0, [])
    clients.remove(later)
    assert clients.next_loss() is None
    assert clients.holds(held)


def test_clients_are_counted_by_org() -> None:
    """Each org has its own limit of concurrent clients."""
    clients = CometdClients()
    _client(clients), _client(clients), _client(clients, org_id="00E")
    assert (clients.count("00D"), clients.count("00E"), clients.count("00F")) == (2, 1, 0)


class Held:
    """A connect that records the calls it receives."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def release(self) -> None:
        self.told.append("release")

    def supersede(self) -> None:
        self.told.append("supersede")


def test_what_held_connects_are_told() -> None:
    """A removed client's connect checks again; a stop answers all and holds no further one."""
    clients, gone, stays = CometdClients(), Held(), Held()
    first, second = _client(clients), _client(clients)
    first.held, second.held = gone, stays
    clients.remove(first)
    clients.close()
    assert (gone.told, stays.told, clients.closed) == (["release"], ["supersede"], True)


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({}, None),
        ({"version_error": "400::No"}, "400::No"),
        ({"session": None, "token": ""}, "401::Request requires authentication"),
        ({"session": None}, "401::Authentication invalid"),
        (
            {"session": replace(SESSION, user_id="005B")},
            "400::Authenticated user id does not match the session's user id",
        ),
        (
            {"browser": "", "server": ""},
            "400::Client {id} has established a session, but no BAYEUX_BROWSER cookie present",
        ),
        ({"server": ""}, "403::Unknown client"),
        ({"server": "!another"}, "403::Unknown client"),
    ],
)
def test_a_message_needs_version_token_and_cookies(
    changed: dict[str, Any], error: str | None
) -> None:
    """A message needs a served version, a valid token of the same user, and both cookies."""
    client = _client(CometdClients())
    message = {"channel": "/meta/connect", "clientId": client.client_id}
    said = refusal(message, replace(GOOD, **changed), client)
    assert (said and said["error"]) == (error and error.format(id=client.client_id))


def test_a_client_without_a_session_is_refused() -> None:
    """Without a client id the handshake is missing; with an unknown id the session is."""
    unknown = {"channel": "/meta/subscribe", "clientId": "gone"}
    for message, error in (
        ({"channel": "/meta/subscribe"}, "403::Client has not completed handshake"),
        (unknown, "403::Unknown client"),
        ({**unknown, "channel": "/meta/connect"}, "403::Unknown client"),
    ):
        said = refusal(message, GOOD, None)
        assert said is not None
        assert said["error"] == error
    assert refusal({"channel": "/meta/handshake"}, GOOD, None) is None


EVENT = BusTopic(name="/event/X__e", kind="event")


@pytest.mark.parametrize(
    ("name", "topic", "error"),
    [
        ("/event/X__e", EVENT, ""),
        (
            "/event/X__e",
            replace(EVENT, can_subscribe=False),
            "403::Subscriber does not have access to the entity in this topic",
        ),
        (
            "/data/AccountChangeEvent",
            replace(EVENT, kind="change", can_subscribe=False),
            "403::User not allowed to subscribe CDC without View All Data permissions",
        ),
        (
            "/event/x__e",
            None,
            "400::The channel you requested to subscribe to doesn't exist {/event/x__e}",
        ),
        ("/u/Mine", None, "404::Unknown channel"),
        ("/any/other", None, "403::Cannot create channel {/any/other}"),
    ],
)
def test_which_channels_can_be_subscribed_to(name: str, topic: BusTopic | None, error: str) -> None:
    """A channel must exist, and the user must have access to it."""
    assert topic_error(name, topic) == error
