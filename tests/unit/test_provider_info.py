"""Provider info is read by every Airflow process: an error in it stops every `airflow` command."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from importlib.metadata import entry_points
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
from packaging.utils import canonicalize_name
from typing_extensions import override

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.provider_info import get_provider_info

INFO = get_provider_info()
CONNECTION = INFO["connection-types"][0]
FIELDS: dict[str, dict[str, Any]] = CONNECTION["conn-fields"]
SECRETS = {
    "private_key",
    "private_key_passphrase",
    "refresh_token",
    "security_token",
    "session_token",
    "user_password",
    "proxies",
}


def schema(name: str) -> dict[str, Any]:
    """A JSON schema that Airflow ships."""
    read: dict[str, Any] = json.loads(files("airflow").joinpath(name).read_text())
    return read


def modules() -> list[str]:
    return [
        name
        for part in ("hooks", "operators", "sensors", "triggers")
        for entry in INFO.get(part, [])
        for name in entry["python-modules"]
    ]


def test_dict_is_what_airflow_accepts() -> None:
    """The dict passes Airflow's schema, and the stricter one of Airflow's own providers."""
    jsonschema.validate(INFO, schema("provider_info.schema.json"))
    jsonschema.validate(
        INFO["connection-types"],
        schema("provider.yaml.schema.json")["properties"]["connection-types"],
    )


def test_no_key_is_silently_ignored() -> None:
    """Every key is one that Airflow or its registry reads, as a misspelt one would pass."""
    assert set(INFO) - {"versions"} <= set(schema("provider_info.schema.json")["properties"])
    assert set(CONNECTION) == {
        "connection-type",
        "hook-class-name",
        "hook-name",
        "conn-fields",
        "ui-field-behaviour",
    }
    assert set(CONNECTION["ui-field-behaviour"]) == {"hidden-fields", "relabeling", "placeholders"}


def test_entry_point_names_the_function_and_the_distribution() -> None:
    """The entry point leads to the dict, which has the distribution's name."""
    [entry] = [
        entry
        for entry in entry_points(group="apache_airflow_provider")
        if entry.dist is not None and entry.dist.name == "airflow-provider-sfevents"
    ]
    assert entry.dist is not None
    assert entry.load()() == INFO
    assert INFO["package-name"] == canonicalize_name(entry.dist.name)


@pytest.mark.parametrize("name", modules())
def test_module_named_in_the_dict_can_be_imported(name: str) -> None:
    """Every module that the dict names exists."""
    import_module(name)


@pytest.mark.parametrize("path", INFO["cli"])
def test_commands_named_in_the_dict_are_given(path: str) -> None:
    """The function that the dict names returns the commands."""
    module, _, name = path.rpartition(".")
    [group] = getattr(import_module(module), name)()
    assert group.name == "sfevents"


@pytest.mark.parametrize("path", INFO["queues"])
def test_queues_named_in_the_dict_have_a_scheme_of_this_package(path: str) -> None:
    """The queue that the dict names has the scheme of this package."""
    module, _, name = path.rpartition(".")
    assert getattr(import_module(module), name)().scheme_matches("sfevents")


def test_hook_class_is_the_connection_types_own() -> None:
    """The dict's hook class has the connection type and the keyword that Airflow uses."""
    module, _, name = CONNECTION["hook-class-name"].rpartition(".")
    hook = getattr(import_module(module), name)
    assert hook.conn_type == CONNECTION["connection-type"]
    assert hook.hook_name == CONNECTION["hook-name"]
    assert hook(**{hook.conn_name_attr: "some"}).conn_id == "some"


@pytest.mark.parametrize("name", FIELDS)
def test_field_of_the_form_explains_itself(name: str) -> None:
    """Every field has a label, a help text that is a sentence, and a type."""
    field = FIELDS[name]
    assert field["label"]
    assert _help(field).endswith(".")
    assert field["schema"]["type"]
    assert "__" not in name, "Airflow splits the form's keys at double underscores"


def test_form_has_a_field_for_every_extra_that_the_hook_reads() -> None:
    """The form and the hook have the same extras."""
    from airflow_provider_sfevents.hooks.connection import ConnectionFields, settings_from

    class Recorder(dict[str, Any]):
        def __init__(self, values: dict[str, Any], asked: set[str]) -> None:
            super().__init__(values)
            self.asked = asked

        @override
        def get(self, key: str, default: Any = None) -> Any:
            self.asked.add(key)
            return super().get(key, default)

    class Given:
        conn_id = "given"
        host: str | None = "https://acme.example.com"
        login: str | None = "key"
        port: int | None = None
        password: str | None = "secret"

        def __init__(self, extra: Recorder) -> None:
            self._extra = extra

        @property
        def extra_dejson(self) -> dict[str, Any]:
            return self._extra

    asked: set[str] = set()
    for auth in FIELDS["auth"]["schema"]["enum"]:
        texts = {name: "x" for name in FIELDS if name not in {"auth", "plaintext"}}
        with suppress(ConfigurationError):  # "x" is no private key; only the requested names count
            given = {**texts, "streaming_sessions": "1", "auth": auth}
            given |= {"connection_timeout": "1", "answer_timeout": "1"}
            settings_from(ConnectionFields(Given(Recorder(given, asked))))
    assert asked == set(FIELDS)


def test_choices_of_login_are_the_hooks() -> None:
    """The form offers exactly the hook's logins, with the first one as default."""
    from airflow_provider_sfevents.hooks.connection import AUTHS

    assert FIELDS["auth"]["schema"]["enum"] == list(AUTHS)
    assert FIELDS["auth"]["schema"]["default"] == AUTHS[0]


@pytest.mark.parametrize(
    ("auth", "fields"),
    {
        "client_credentials": set[str](),
        "jwt_bearer": {"username", "private_key", "private_key_passphrase", "jwt_audience"},
        "refresh_token": {"refresh_token"},
        "password": {"username", "user_password", "security_token"},
        "soap": {"security_token", "api_version"},
        "session": {"session_token", "instance_url", "org_id"},
    }.items(),
)
def test_the_form_says_what_each_login_needs(auth: str, fields: set[str]) -> None:
    """The form lists each login's needs, and help for some logins begins with their names."""
    assert f"- **{auth}**: " in _help(FIELDS["auth"])
    assert {name for name in FIELDS if name != "auth" and auth in _logins(FIELDS[name])} == fields


def _help(field: dict[str, Any]) -> str:
    """Help text of a field: Airflow shows the Markdown only if there is no description."""
    markdown = field["schema"].get("description_md", "")
    assert not ("description" in field and markdown)
    said: str = field.get("description", markdown)
    return said


def _logins(field: dict[str, Any]) -> list[str]:
    """Logins that a field is for, from the beginning of its help text."""
    named, mark, _ = _help(field).partition(": ")
    return [one.strip() for one in named.split(",")] if mark else []


def test_exactly_the_secrets_are_masked_by_airflow() -> None:
    """Airflow masks extras by their names: exactly the secrets have such names."""
    from airflow.sdk.log import redact

    shown = redact(dict.fromkeys(FIELDS, "a-value-to-hide"))
    assert {name for name, value in shown.items() if value == "***"} == SECRETS


def test_secrets_are_not_plain_inputs() -> None:
    """A secret is a password field; the private key, which has lines, a multi-line one."""
    forms = {name: FIELDS[name]["schema"].get("format") for name in SECRETS}
    assert forms == {**dict.fromkeys(SECRETS, "password"), "private_key": "multiline"}


def test_import_is_light() -> None:
    """Reading the dict loads neither Airflow nor another heavy package."""
    code = (
        "import sys; from airflow_provider_sfevents.provider_info import get_provider_info;"
        "get_provider_info();"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    assert loaded.isdisjoint(
        {"airflow", "grpc", "google", "pyspark", "pyarrow", "fastavro", "httpx"}
    )
