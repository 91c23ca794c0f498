"""pytest fixtures for tests of DAGs that read Salesforce events.

pytest loads this module in every session, therefore it imports nothing until a fixture is used.
`sfevents_emulator` is a running emulator with a fresh org; an error inside it fails the test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_sfevents.emulator.emulator import Emulator
    from airflow_provider_sfevents.emulator.knobs import Knobs


@pytest.fixture
def sfevents_knobs() -> Knobs | None:
    """Knobs for `sfevents_emulator`; override this in a conftest.py or a test module."""
    return None


@pytest.fixture
def sfevents_emulator(
    sfevents_knobs: Knobs | None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Emulator]:
    """Run an emulator with a fresh org during the test.

    Its token is in the environment for that time, so that a test may use `sfevents-emulator …
    --url`.
    """
    from airflow_provider_sfevents.emulator.cli.remote import TOKEN_VARIABLE
    from airflow_provider_sfevents.emulator.emulator import Emulator

    with Emulator(knobs=sfevents_knobs) as bus:
        monkeypatch.setenv(TOKEN_VARIABLE, bus.token)
        yield bus
        bus.check()
