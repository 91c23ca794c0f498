"""Managed subscriptions from the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.emulator import Emulator, Knobs
from tests.integration.emulator.managing import ManagedCall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.integration.emulator.conftest import Said

    Run = Callable[..., list[str]]


@pytest.fixture(scope="module")
def org() -> Iterator[Emulator]:
    with Emulator(knobs=Knobs(half_close_seconds=0.01)) as bus:
        bus.define_event("Order__e", {"Number__c": "Text"})
        yield bus


@pytest.fixture
def run(org: Emulator, says: Callable[..., Said]) -> Run:
    """Run a command against the emulator and return its lines."""

    def go(*words: str, code: int = 0) -> list[str]:
        said = says(*words, url=org.my_domain_url)
        assert said.code == code
        return said.lines

    return go


def test_define_list_set_stop_run_delete(org: Emulator, run: Run, talk: Any) -> None:
    """Each managed verb works from the command line and shows the committed id."""
    assert run("managed", "list") == ["no managed subscription"]
    made = run("managed", "define", "Lake", "/event/Order__e", "--default-replay", "EARLIEST")
    [config] = org.managed_subscriptions
    head = f"Lake ({config.id}): /event/Order__e, "
    assert made == [f"{head}RUN, default EARLIEST, recovery LATEST, nothing committed"]
    [replay_id] = org.publish("/event/Order__e", [{"Number__c": "1"}])

    async def commit(client: Any) -> list[str]:
        call = await ManagedCall.opened(client, developer_name="Lake")
        await call.take(1)
        await call.commit(replay_id)
        await call.answer()
        return run("managed", "list")

    [line] = talk(org, commit)
    assert line.endswith(f"{replay_id.hex()} committed, a client is there")
    changed = run("managed", "set", config.id, "--error-recovery-replay", "EARLIEST")
    assert "recovery EARLIEST" in changed[0]
    assert run("managed", "stop", "Lake")[0].startswith(f"{head}STOP")
    assert "nothing committed" in run("managed", "run", "Lake")[0]
    assert run("managed", "delete", "Lake") == ["Lake: deleted"]
    assert org.managed_subscriptions == ()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("define", "9Lake", "/event/Order__e"), "must begin with a letter"),
        (
            ("define", "Lake", "/event/None__e"),
            "does not exist in this org; it has /event/Order__e",
        ),
        (("stop", "Sea"), "no managed subscription 'Sea'"),
    ],
)
def test_mistakes_are_one_line(run: Run, words: tuple[str, ...], said: str) -> None:
    """A refusal by the org is one line."""
    [line] = run("managed", *words, code=2)
    assert line.startswith("error: ")
    assert said in line
