"""Notifiers of users: the context that they get, and what becomes of their errors."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import BaseNotifier
from typing_extensions import override

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.hooks.outgoing.notifiers import (
    find_notifier,
    notifiers_of,
    notify,
    notify_from_trigger,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

NOTICE = {"kind": "loss_window", "consumer": "orders", "seen": "Events may have been missed."}

told: list[str] = []


class Pager(BaseNotifier):  # type: ignore[misc]
    """Renders its text with the context, as the notifiers of providers do."""

    template_fields: Sequence[str] = ("text",)

    def __init__(self, text: str = "{{ sfevents.consumer }}: {{ sfevents.seen }}") -> None:
        super().__init__()
        self.text = text

    @override
    def notify(self, context: Any) -> None:
        told.append(self.text)


class AsyncPager(Pager):
    """Has both ways, as Airflow recommends for a triggerer."""

    @override
    async def async_notify(self, context: Any) -> None:
        told.append(f"async {self.text}")


class BrokenPager(Pager):
    @override
    def notify(self, context: Any) -> None:
        raise OSError("no route to the pager")


def tell(context: Any) -> None:
    told.append(context["sfevents"]["kind"])


@pytest.fixture(autouse=True)
def _nothing_told() -> None:
    told.clear()


def test_a_notifier_renders_the_notice_anew_each_time() -> None:
    """Templates see the notice as `sfevents`, beside the task's own context."""
    pager = Pager("{{ run_id }} {{ sfevents.consumer }}")
    for run in ("r1", "r2"):
        notify([pager, tell], {"run_id": run}, NOTICE)
    assert told == ["r1 orders", "loss_window", "r2 orders", "loss_window"]


def test_a_notifier_that_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The next notifier is called all the same."""
    notify([BrokenPager(), Pager("{{ 1 / 0 }}"), tell], {}, NOTICE)
    asyncio.run(notify_from_trigger(BrokenPager(), NOTICE))
    assert told == ["loss_window"]
    assert "Notifier BrokenPager failed: OSError: no route to the pager." in caplog.text
    assert "The watcher is not affected" in caplog.text


@pytest.mark.parametrize(
    ("notifier", "said"),
    [
        (Pager(), "orders: Events may have been missed."),
        (AsyncPager(), "async orders: Events may have been missed."),
        (tell, "loss_window"),
    ],
)
def test_a_watchers_notifier_gets_the_notice(notifier: Any, said: str) -> None:
    """An `async_notify` is preferred; anything else is called in a thread."""
    asyncio.run(notify_from_trigger(notifier, NOTICE))
    assert told == [said]


def test_a_dotted_path_names_a_notifier() -> None:
    """It names an instance, a class that is made without arguments, or a function."""
    assert isinstance(find_notifier(f"{__name__}.Pager"), Pager)
    assert find_notifier(f"{__name__}.tell") is tell
    for path in (f"{__name__}.Missing", f"{__name__}.NOTICE", "nowhere.Pager", "Pager"):
        with pytest.raises(ConfigurationError, match=r"names no notifier.*Give the dotted path"):
            find_notifier(path)


def test_an_argument_that_is_no_notifier_is_refused() -> None:
    """A class and a text are no notifiers; None is none."""
    assert notifiers_of(None) == ()
    assert notifiers_of([tell]) == notifiers_of(tell) == (tell,)
    for wrong in (Pager, "pager"):
        with pytest.raises(ConfigurationError, match="Give an instance"):
            notifiers_of(wrong)
