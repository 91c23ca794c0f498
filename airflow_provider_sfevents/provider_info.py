"""Provider info for Airflow: modules, commands, settings and the form of the connection.

Airflow calls `get_provider_info` whenever one of its processes starts, before its own configuration
is complete, and a dict that breaks its schema stops every `airflow` command on the machine. So no
module of Airflow is imported here, and `tests/unit/test_provider_info.py` checks the dict against
Airflow's schemas.

The connection form comes from this dict alone: since 3.2 the UI ignores the hook's own form
methods.
"""

from __future__ import annotations

from typing import Any

from airflow_provider_sfevents import __version__

_INTEGRATION = "Salesforce Events"


def get_provider_info() -> dict[str, Any]:
    """Return the dict for the entry point `apache_airflow_provider`."""
    return {
        "package-name": "airflow-provider-sfevents",
        "versions": [__version__],  # for the Astronomer Registry; Airflow takes the distribution's
        "name": "Salesforce Events",
        "description": "Salesforce platform events and change events into a data lake, with Spark.",
        "integrations": [
            {
                "integration-name": _INTEGRATION,
                "external-doc-url": "https://developer.salesforce.com/docs/platform/pub-sub-api"
                "/overview",
                "tags": ["service"],
            }
        ],
        "hooks": [_modules("airflow_provider_sfevents.hooks.sfevents")],
        "operators": [
            _modules(
                "airflow_provider_sfevents.operators.sfevents",
                "airflow_provider_sfevents.operators.chain",
                "airflow_provider_sfevents.operators.entity_snapshot",
                "airflow_provider_sfevents.operators.maintain",
                "airflow_provider_sfevents.operators.doctor",
                "airflow_provider_sfevents.operators.monitor",
                "airflow_provider_sfevents.operators.publish",
            )
        ],
        "extra-links": [
            "airflow_provider_sfevents.operators.fetching.SfEventsPositionLink",
            "airflow_provider_sfevents.operators.fetching.SfEventsTablesLink",
            "airflow_provider_sfevents.operators.fetching.SfEventsSetupLink",
        ],
        "sensors": [_modules("airflow_provider_sfevents.sensors.sfevents")],
        "triggers": [_modules("airflow_provider_sfevents.triggers.sfevents")],
        "queues": ["airflow_provider_sfevents.queues.sfevents.SfEventsMessageQueueProvider"],
        "cli": ["airflow_provider_sfevents.commands.command_arguments.get_commands"],
        "config": _CONFIG,
        "connection-types": [
            {
                "connection-type": "sfevents",
                "hook-class-name": "airflow_provider_sfevents.hooks.sfevents.SfEventsHook",
                "hook-name": "Salesforce Events",
                "ui-field-behaviour": _STANDARD_FIELDS,
                "conn-fields": _EXTRA_FIELDS,
            }
        ],
    }


_CONFIG: dict[str, Any] = {
    "sfevents": {
        "description": "Settings of airflow-provider-sfevents.",
        "options": {
            "staging_shared": {
                "description": (
                    "Set this if every machine that runs tasks mounts the same folder at the "
                    "default staging folder, $AIRFLOW_HOME/sfevents. Otherwise that folder is "
                    "refused if the executor may run tasks on other machines."
                ),
                "version_added": "0.1.0",
                "type": "boolean",
                "example": "True",
                "default": "False",
            },
            "staging_mode": {
                "description": (
                    "Modes of staged files on local disks. `private`: files 0600, folders 0700. "
                    "`group`: files 0640, folders 2750, of the group `staging_group`, for a Spark "
                    "that runs as another user. `inherit`: by the umask. Object stores have no "
                    "modes."
                ),
                "version_added": "0.1.0",
                "type": "string",
                "example": "group",
                "default": "private",
            },
            "staging_group": {
                "description": (
                    "With `staging_mode = group`: name of the group that may read staged files. "
                    "The users that run tasks have to be members of it."
                ),
                "version_added": "0.1.0",
                "type": "string",
                "example": "spark",
                "default": "",
            },
            "spark_connect_check_seconds": {
                "description": (
                    "Seconds for all checks of a Spark Connect server, before a task fetches "
                    "events. A server that has just started may need longer than one at work."
                ),
                "version_added": "0.1.0",
                "type": "float",
                "example": "30",
                "default": "10",
            },
        },
    }
}


def _modules(*names: str) -> dict[str, Any]:
    return {"integration-name": _INTEGRATION, "python-modules": list(names)}


def _text(
    label: str, description: str, *, form: str | None = None, default: str | None = None
) -> dict[str, Any]:
    """Return a form field that may stay empty.

    :param form: Airflow's name for the look of the input.
    """
    schema: dict[str, Any] = {"type": ["string", "null"]}
    if form is not None:
        schema["format"] = form
    if default is not None:
        schema["default"] = default
    return {"label": label, "description": description, "schema": schema}


_STANDARD_FIELDS: dict[str, Any] = {
    # Airflow's Test button refuses a connection without a port, so that the port is asked for.
    "hidden-fields": ["schema"],
    "relabeling": {
        "host": "My Domain URL",
        "port": "Pub/Sub port",
        "login": "Consumer key",
        "password": "Consumer secret",
    },
    "placeholders": {
        "host": "https://acme.my.salesforce.com",
        "port": "7443",
        "login": "of the external client app; for soap the user name",
        "password": "of the same app; for soap the user's password",
    },
}

# Airflow masks an extra by its name (`private_key`, `passphrase`, `password`, `token`): the name of
# a secret must have such a word in it.
_EXTRA_FIELDS: dict[str, Any] = {
    "auth": {
        "label": "Login with",
        # Markdown, as a `description` cannot hold a list. Bold, as `code` overlaps the line above.
        "schema": {
            "description_md": "What each needs, beside the My Domain URL:\n"
            "- **client_credentials**: consumer key and secret.\n"
            "- **jwt_bearer**: consumer key, user name, private key.\n"
            "- **refresh_token**: consumer key, refresh token; some apps: the secret.\n"
            "- **password**: consumer key and secret, user name, user password.\n"
            "- **soap**: user name as key, password as secret. Ends with Summer '27.\n"
            "- **session**: a session token that you already have.",
            "type": "string",
            "enum": [
                "client_credentials",
                "jwt_bearer",
                "refresh_token",
                "password",
                "soap",
                "session",
            ],
            "default": "client_credentials",
        },
    },
    "username": _text(
        "User name",
        "jwt_bearer, password: the Salesforce user to act as, for example integration@acme.com.",
    ),
    "private_key": _text(
        "Private key",
        "jwt_bearer: the PEM text of the RSA key whose certificate the app holds, with its BEGIN "
        "and END lines.",
        form="multiline",
    ),
    "private_key_passphrase": _text(
        "Private key passphrase",
        "jwt_bearer: only if the private key is encrypted.",
        form="password",
    ),
    "jwt_audience": _text(
        "JWT audience",
        "jwt_bearer: empty takes the My Domain URL. Otherwise https://login.salesforce.com,"
        " for a sandbox https://test.salesforce.com.",
    ),
    "refresh_token": _text(
        "Refresh token",
        "refresh_token: the token that the app received when the user consented.",
        form="password",
    ),
    "user_password": _text(
        "User password",
        "password: the Salesforce user's own password, without the security token.",
        form="password",
    ),
    "security_token": _text(
        "Security token",
        "password, soap: the user's security token; empty if the org trusts this machine's"
        " address.",
        form="password",
    ),
    "api_version": _text(
        "API version",
        "soap: from 31.0 to 64.0, later ones do not have this login; empty takes 57.0.",
    ),
    "session_token": _text(
        "Session token",
        "session: an access token or session id; it is used until Salesforce refuses it.",
        form="password",
    ),
    "instance_url": _text(
        "Instance URL",
        "session: the org's own address. Empty takes the My Domain URL; the other logins learn it "
        "by themselves.",
    ),
    "org_id": _text(
        "Org id",
        "session: the 18 characters of the org's id. Empty asks Salesforce; the other logins learn "
        "it by themselves.",
    ),
    "transport": _text(
        "API for events",
        "pubsub or streaming, for topics that both APIs have and tasks that do not say it. Empty "
        "takes pubsub. PushTopics and generic channels always use the Streaming API.",
    ),
    "streaming_sessions": _text(
        "Streaming API sessions",
        "Sessions that a triggerer has at once; waits beyond them take turns. Below the org's "
        "limit of CometD clients. Empty takes 10.",
    ),
    "connection_timeout": _text(
        "Connection timeout",
        "Seconds that hook.client() gives a lost connection to come back; none for no limit. Empty "
        "takes 10.",
    ),
    "answer_timeout": _text(
        "Answer timeout",
        "Longest wait in seconds for the answer to a login or a request over HTTP. Empty takes 10 "
        "for a login, 30 for the Streaming API, 120 for REST.",
    ),
    "proxies": _text(
        "Proxy",
        "URL of the HTTP proxy to all hosts, such as http://proxy.acme.example:3128. Empty takes "
        "that of the worker's environment.",
        form="password",
    ),
    "pubsub_endpoint": _text(
        "Pub/Sub API endpoint",
        "Host of the gRPC service; its port is the Pub/Sub port. Empty takes the global host, "
        "api.pubsub.salesforce.com.",
    ),
    "allowed_hosts": _text(
        "Allowed hosts",
        "Hosts besides Salesforce's own that the org may have, such as a gateway's, separated by"
        " commas. The token is sent to no other host.",
    ),
    "ca_file": _text(
        "CA file",
        "Path, on the worker, of a PEM file with the certificates to trust instead of the usual "
        "ones.",
    ),
    "plaintext": {
        "label": "No TLS",
        "description": "gRPC without encryption, for the emulator; refused for every host except "
        "this machine.",
        "schema": {"type": ["boolean", "null"], "default": False},
    },
}
