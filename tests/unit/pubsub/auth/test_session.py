"""Ids of org and user, from every source that has them."""

from __future__ import annotations

import pytest

from airflow_provider_sfevents.pubsub.auth.secret import Secret
from airflow_provider_sfevents.pubsub.auth.session import (
    Session,
    ids_from_url,
    long_id,
    org_id_from_token,
    org_id_of,
    user_id_of,
)


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("00DgL000000ABCd", "00DgL000000ABCdUAO"),
        ("00D000000000001", "00D000000000001EAA"),
        ("001Dp00000H8YVW", "001Dp00000H8YVWIA3"),
        ("00DgL000000ABCdUAO", "00DgL000000ABCdUAO"),
        ("", ""),
    ],
)
def test_the_long_form_of_an_id(short: str, long: str) -> None:
    """An id of 15 characters gets the suffix that Salesforce gives it; other text stays."""
    assert long_id(short) == long


@pytest.mark.parametrize(
    ("token", "org_id"),
    [
        ("00DgL000000ABCd!AR8AQ.x", "00DgL000000ABCdUAO"),
        ("eyJhbGciOiJSUzI1NiJ9.e30.x", ""),
        ("00DgL000000ABCd", ""),
        ("005gL000000ABCd!x", ""),
        ("", ""),
    ],
)
def test_the_org_id_in_a_token(token: str, org_id: str) -> None:
    """A classic token begins with the org id; no id is taken from another token."""
    assert org_id_from_token(Secret(token)) == org_id


@pytest.mark.parametrize(
    ("url", "ids"),
    [
        ("https://login.salesforce.com/id/00DgL000000ABCdUAO/005gL000000XYZaQAO", ("00DgL000000ABCdUAO", "005gL000000XYZaQAO")),
        (
            "https://test.salesforce.com/id/00DgL000000ABCd/005gL000000XYZa/",
            ("00DgL000000ABCdUAO", "005gL000000XYZaQAO"),
        ),
        ("https://login.salesforce.com/id/001gL000000ABCd/00DgL000000ABCd", ("", "")),
        ("https://login.salesforce.com/id/../../etc/005gL000000XYZa", ("", "")),
        ("https://login.salesforce.com/", ("", "")),
        ("", ("", "")),
    ],
)  # fmt: skip
def test_the_ids_in_an_id_url(url: str, ids: tuple[str, str]) -> None:
    """The token answer's `id` names org and user; text that is no such id is not taken for one."""
    assert ids_from_url(url) == ids


@pytest.mark.parametrize(
    ("text", "org_id", "user_id"),
    [
        ("00DgL000000ABCd", "00DgL000000ABCdUAO", ""),
        ("00DgL000000ABCdUAO", "00DgL000000ABCdUAO", ""),
        ("005gL000000XYZa", "", "005gL000000XYZaQAO"),
        ("005gL000000XYZaQAO", "", "005gL000000XYZaQAO"),
        ("001gL000000ABCd", "", ""),
        ("00D", "", ""),
        ("00DgL000000ABCdUAO\n", "", ""),
        ("00D../../../etc", "", ""),
        ("", "", ""),
    ],
)
def test_ids_of_orgs_and_users(text: str, org_id: str, user_id: str) -> None:
    """An id of 15 or 18 characters that begins with 00D or 005 is returned with 18."""
    assert (org_id_of(text), user_id_of(text)) == (org_id, user_id)


def test_a_session_does_not_show_its_token() -> None:
    """The `repr` of a session shows no token."""
    session = Session(token=Secret("s3cret"), instance_url="https://x", org_id="00D")
    assert "s3cret" not in repr(session)
