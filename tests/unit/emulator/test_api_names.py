"""API names as Salesforce allows them."""

from __future__ import annotations

import pytest

from airflow_provider_sfevents.emulator.api_names import is_api_name


@pytest.mark.parametrize(
    "name",
    ["Account", "A", "X1__c", "Order_Number__c", "Ns__Order_Event__e", "LoginEventStream"],
)
def test_names_that_can_be(name: str) -> None:
    """Standard names have no suffix; packages put their namespace before the name."""
    assert is_api_name(name)


@pytest.mark.parametrize(
    "name",
    ["", " ", "My Order__e", "Größe__c", "1st__e", "_A__e", "A_", "A___e", "A__B__C__e", "A-B__c"],
)
def test_names_that_cannot_be(name: str) -> None:
    """A name has letters, digits and single underscores, and begins with a letter."""
    assert not is_api_name(name)
