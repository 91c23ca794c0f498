"""Faults can be ordered from the command line, also in another process."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_sfevents.emulator import Emulator

    Says = Callable[..., tuple[int, str, str]]
    Talk = Callable[..., Any]

TOPIC = "/event/Order__e"


@pytest.fixture
def bus(plain: Emulator) -> Emulator:
    return plain


@pytest.fixture
def says(bus: Emulator, says: Says) -> Says:
    """Run a command on the emulator: its exit code, output and errors."""
    return partial(says, url=bus.my_domain_url)


def test_order_list_clear(bus: Emulator, says: Says) -> None:
    """Each option of an order reaches the emulator; list shows it and clear removes it."""
    order = ("fault", "order")
    assert says("fault", "list")[1] == "nothing is ordered\n"
    subscribe = ("--error-code", "service.auth.error", "--times", "3", "--after", "20")
    assert says(*order, "Subscribe", *subscribe, "--after-seconds", "1.5")[1] == (
        "Subscribe: ordered\n"
    )
    assert says(*order, "GetTopic", "--how", "rst_stream")[0] == 0
    assert says(*order, "token", "--status", "UNAVAILABLE", "--message", "later")[0] == 0
    says("repeat", "2")
    says("reorder", "3")
    says("resend", "4")
    says("freeze")
    assert says("fault", "list")[1].splitlines() == [
        "Subscribe UNAUTHENTICATED service.auth.error, 3 times, after 20, after 1.5 s",
        "GetTopic rst_stream",
        "token UNAVAILABLE",
        "Subscribe repeat, 2 times",
        "Subscribe reorder, 3 times",
        "Subscribe resend, after 4",
        "freeze",
    ]
    assert bus.faults()[2].message == "later"
    assert says("fault", "clear", "token")[1] == "token: cleared\n"
    assert len(bus.faults()) == 6
    assert says("fault", "clear")[1] == "cleared\n"
    assert bus.faults() == ()


def test_users_and_tokens(bus: Emulator, says: Says, http: Callable[..., Any]) -> None:
    """Users are locked and unlocked, and tokens revoked."""
    org = bus.org
    app = {"client_id": org.consumer_key, "client_secret": org.consumer_secret}
    secret = org.password + org.security_token
    user = {"grant_type": "password", "username": org.username, "password": secret}
    later = {"grant_type": "refresh_token", "refresh_token": org.refresh_token}

    def status(form: dict[str, str]) -> int:
        return int(http(f"{bus.login_url}/services/oauth2/token", {**app, **form}).status)

    assert says("lock-out", org.username)[:2] == (0, "lock-out: done\n")
    assert status(user) == 400
    says("unlock", org.username)
    assert (status(user), status(later)) == (200, 200)
    says("revoke", org.refresh_token)
    assert status(later) == 400


@pytest.mark.parametrize(
    ("command", "condition"),
    [
        ("freeze 60", "freeze"),
        ("away 60", "away"),
        ("restart 60", "away"),
        ("trickle 100", "trickle 100"),
        ("trickle 100 --rpc Subscribe", "trickle Subscribe 100"),
        ("keepalives pause", "pause keepalives"),
    ],
)
def test_lasting_conditions_can_be_ended(
    bus: Emulator, says: Says, command: str, condition: str
) -> None:
    """Each lasting condition is listed and ended by its counterpart."""
    ends = {"freeze": "thaw", "away": "back", "restart": "back", "keepalives": "keepalives resume"}
    verb, *more = command.split()
    assert says(*command.split())[1] == f"{verb}: done\n"
    assert [fault.how for fault in bus.faults()] == [condition]
    end = ends.get(verb, " ".join(["trickle 0", *more[1:]]))
    assert says(*end.split())[0] == 0
    assert bus.faults() == ()


def test_what_happens_at_once(bus: Emulator, says: Says, talk: Talk) -> None:
    """Cuts, expired tokens, moves and forgotten schemas are visible to clients."""
    schema_id = bus.schema_id("Order__e")
    [old] = bus.publish(TOPIC, [{}])

    async def scenario(client: Any) -> list[str]:
        seen = []
        for command in ("drop goaway", "drop", "drop end", "restart"):
            stream = await _delivering(client)
            assert says(*command.split())[0] == 0
            seen.append(await _ending(client, stream))
        await _delivering(client)
        says("forget-schema", schema_id)
        seen.append((await client.refused(client.get_schema(schema_id))).status)
        says("reset-replay-ids", "--old-ids", "refused")
        stream = await client.subscribe(TOPIC, preset=2, replay_id=old)
        seen.append((await client.refused(stream.read())).code.rpartition(".")[2])
        stream = await client.subscribe(TOPIC)
        await stream.take(1)
        says("expire-tokens", "--in-stream")
        seen.append((await client.refused(stream.read())).code)
        return seen

    assert talk(bus, scenario) == [
        *("UNAVAILABLE", "UNAVAILABLE", "OK", "UNAVAILABLE"),
        *("NOT_FOUND", "corrupted", "service.auth.error"),
    ]


def test_poison_and_publisher_retries(bus: Emulator, says: Says) -> None:
    """--raw publishes bytes unchanged, and --id sets an event's id."""
    assert "1 published" in says("publish", TOPIC, "--raw", "ffff", "--schema-id", "unknown")[1]
    for _ in range(2):
        assert says("publish", TOPIC, "{}", "--id", "same")[0] == 0
    poison, *retries = bus.events(TOPIC)
    assert (poison["schema_id"], poison["bytes"]) == ("unknown", 2)
    assert [event["id"] for event in retries] == ["same", "same"]


def test_the_clock(bus: Emulator, says: Says) -> None:
    """`clock advance` ages the bus, and `clock show` states the difference."""
    bus.publish(TOPIC, [{}])
    assert says("clock", "show")[1].endswith(", 0 s ahead\n")
    assert says("clock", "advance", "71h")[1].endswith(", 255600 s ahead\n")
    assert len(bus.events(TOPIC)) == 1
    assert says("clock", "advance", "1h30m")[1].endswith(", 261000 s ahead\n")
    assert bus.events(TOPIC) == []


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("fault order GetTopic --status BAD", "'BAD' is not a gRPC status"),
        ("clock advance 72", "'72' is not a duration; write 72h"),
        ("forget-schema nope", "'nope' was never in use here"),
        ("reorder 1", "two events at least"),
        ("publish /event/Order__e --raw xx", "non-hexadecimal"),
        ("publish /event/Order__e --file x --id 1", "--id is for"),
    ],
)
def test_mistakes_are_one_line(says: Says, command: str, why: str) -> None:
    """Each mistake is one line and the exit code 2."""
    code, out, err = says(*command.split())
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert why in err


async def _delivering(client: Any) -> Any:
    """A stream that has delivered an event: a call right after a cut may meet the old one."""
    from grpc import StatusCode, aio

    while True:
        stream = await client.subscribe(TOPIC)
        try:
            await stream.take(1)
        except aio.AioRpcError as error:
            if error.code() is not StatusCode.UNAVAILABLE:
                raise
        else:
            return stream


async def _ending(client: Any, stream: Any) -> str:
    """Status and code of a stream that ended."""
    from grpc import aio

    try:
        assert await stream.read() is aio.EOF
    except aio.AioRpcError as error:
        return str(error.code().name)
    return str((await stream.call.code()).name)
