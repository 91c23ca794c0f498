"""What the suite asks of the environment before it goes to a real org."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.contract import deviations
from tests.contract.orgs import CONNECTION, TOPIC, OrgUnderTest, check_given, given

GOOD = {
    CONNECTION: json.dumps({"host": "https://x.my.salesforce.com", "extra": {}}),
    TOPIC: "/event/X__e",
}


@pytest.mark.parametrize("missing", [CONNECTION, TOPIC])
def test_what_is_missing_is_named(missing: str) -> None:
    """Before anything is asked of an org."""
    environment = {name: value for name, value in GOOD.items() if name != missing}
    with pytest.raises(pytest.UsageError, match=f"^{missing} must be set"):
        check_given(environment)


@pytest.mark.parametrize("wrong", ["S3CRET", '"S3CRET"', '{"password": "S3CRET"}'])
def test_a_connection_that_cannot_be_read_is_not_shown(wrong: str) -> None:
    """It may hold secrets all the same."""
    with pytest.raises(pytest.UsageError, match="not the JSON") as error:
        check_given({**GOOD, CONNECTION: wrong})
    assert "S3CRET" not in str(error.value)


def test_what_an_org_does_not_have_is_skipped_by_name() -> None:
    """Who reads the report knows what to set."""
    with given(GOOD) as org:
        with pytest.raises(pytest.skip.Exception, match="SFEVENTS_ORG_ENTITY is not given"):
            org.need("entity")
        with pytest.raises(pytest.skip.Exception, match="SFEVENTS_ORG_PATIENT=1"):
            org.wait_long(1800)
        with pytest.raises(pytest.skip.Exception, match="not on a real org: it takes"):
            org.set_up("it takes days").__enter__()


def test_failures_do_not_show_secrets() -> None:
    """The org is an argument of each test, which pytest prints."""
    connection = {"password": "S3CRET", "extra": {"session_token": "S3CRET"}}
    with given({**GOOD, CONNECTION: json.dumps(connection)}) as org:
        assert isinstance(org, OrgUnderTest)
        assert "S3CRET" not in repr(org) + repr(org.door)


@pytest.mark.parametrize("name", deviations.EMULATOR)
def test_a_deviation_is_that_of_a_test(name: str) -> None:
    """A renamed test does not leave its deviation behind."""
    module, _, function = name.partition("::")
    text = (Path(__file__).parent / f"{module}.py").read_text()
    assert f"def {function.partition('[')[0]}(" in text
