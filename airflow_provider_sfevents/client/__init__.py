"""Asyncio client for Salesforce events, without Airflow: `SalesforceStreamingClient`.

The names are those of `aiosfstream`. The import is light: gRPC and HTTP are loaded by `open`.
"""

from __future__ import annotations

from airflow_provider_sfevents.client.authenticators import (
    PasswordAuthenticator,
    RefreshTokenAuthenticator,
)
from airflow_provider_sfevents.client.replay_markers import ReplayMarker, ReplayOption
from airflow_provider_sfevents.client.replay_storages import (
    ConstantReplayId,
    DefaultMappingStorage,
    MappingStorage,
    PositionStoreStorage,
    ReplayMarkerStorage,
    ReplayMarkerStoragePolicy,
)
from airflow_provider_sfevents.client.streaming_client import Client, SalesforceStreamingClient
from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ClientClosedError,
    ReplayError,
    ServerError,
    TransportError,
    TransportTimeoutError,
)
from airflow_provider_sfevents.pubsub.auth.secret import Secret
from airflow_provider_sfevents.pubsub.auth.settings import (
    ClientCredentials,
    JwtBearer,
    SessionToken,
    Settings,
    SoapLogin,
)

__all__ = [
    "AuthenticationError",
    "Client",
    "ClientClosedError",
    "ClientCredentials",
    "ConstantReplayId",
    "DefaultMappingStorage",
    "JwtBearer",
    "MappingStorage",
    "PasswordAuthenticator",
    "PositionStoreStorage",
    "RefreshTokenAuthenticator",
    "ReplayError",
    "ReplayMarker",
    "ReplayMarkerStorage",
    "ReplayMarkerStoragePolicy",
    "ReplayOption",
    "SalesforceStreamingClient",
    "Secret",
    "ServerError",
    "SessionToken",
    "Settings",
    "SoapLogin",
    "TransportError",
    "TransportTimeoutError",
]
