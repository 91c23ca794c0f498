"""Knobs: settings for behaviour on which sources disagree, and for fast tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args, get_origin, get_type_hints

from airflow_provider_sfevents.emulator.errors import STATUSES

MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """Settings of an emulator; each default follows live orgs, otherwise the documentation.

    The text of each knob states the behaviour of the real service and the source.
    """

    # --- Subscribe: timers ------------------------------------------------------------------------
    keepalive_seconds: float = 120.0
    """Silence before a keepalive.

    Documented: within 270 s (Subscribe RPC page); live orgs: 60 s in 2023, exactly 120 s in 2026.
    """
    idle_close_seconds: float = 60.0
    """Time after which a stream with nothing outstanding is closed.

    60 s (Subscribe RPC page); a comment in Salesforce's Java sample says 70 s.
    """
    idle_close_status: Literal["OK", "UNAVAILABLE"] = "OK"
    """Status of that end. Not documented; both have been reported."""
    half_close_seconds: float = 0.3
    """Time from the client's half-close to the end with OK, without further messages.

    Source: live logs, 2026.
    """

    # --- Subscribe: credit and responses ----------------------------------------------------------
    max_outstanding: int = 100
    """Most events requested and not yet delivered, over all requests of a stream.

    Source: Pub/Sub API guide, flow control.
    """
    over_limit: Literal["clamp", "reject"] = "clamp"
    """Handling of a larger request. Guide: treated as 100. One production client reports a refusal.
    """
    response_events: int | tuple[int, int] = (1, 16)
    """Events in one response: a fixed number, or the bounds of a random one.

    Responses do not correspond to requests; live logs show 1 to 16 events.
    """
    max_response_bytes: int = 3 * MEGABYTE
    """Largest response (Pub/Sub API guide, allocations)."""
    round_trip_seconds: float = 0.0
    """Simulated round-trip time; each request takes effect this much later."""
    spread_seconds: float = 0.0
    """Time over which 100 events are spread.

    A response of n events leaves n/100 of this time after the one before.
    """

    max_streams_per_connection: int = 1000
    """Concurrent RPCs on one HTTP/2 connection (Pub/Sub API guide, allocations).

    A further RPC waits in the client until another one ends.
    """

    # --- ManagedSubscribe -------------------------------------------------------------------------
    managed_propagation_seconds: float = 120.0
    """Time until the service knows a config or a change made over REST, by the emulator's clock.

    Documented: several minutes. Changes by the test's verbs are known at once.
    """
    slot_hold_seconds: float = 15.0
    """Time for which a managed subscription stays taken after its client left.

    Less than 15 s (live logs). Meanwhile other clients get `already.active`.
    """
    half_open_seconds: float = 900.0
    """Time for which the service keeps a half-open connection, see `drop_connections("half_open")`.

    About 15 minutes (live logs).
    """
    commit_deadline_seconds: float = 1800.0
    """Time without a CommitReplayRequest after which a managed stream ends with DEADLINE_EXCEEDED.

    Source: live logs.
    """
    commit_deadline_code: str = ""
    """Its error code; empty for none. Not known for live orgs."""
    commit_response_seconds: float = 1.0
    """Time from a commit to its answer; commits that follow until then share the answer.

    Managed Subscribe RPC page; about one second in live logs.
    """
    commit_reach: Literal["stream", "subscription"] = "stream"
    """Positions that count as delivered before a commit: this stream's, or the subscription's.

    Not known for live orgs.
    """
    managed_id_and_name: Literal["refuse", "id"] = "refuse"
    """Handling of a first request with id and name. `id`: the id counts.

    The documented text of the error concerns both given, its name concerns none given.
    """
    max_managed: int = 200
    """Managed event subscriptions per org (Pub/Sub API guide, allocations)."""

    # --- Publish and PublishStream ----------------------------------------------------------------
    publish_idle_seconds: float = 1800.0
    """Time without a request after which a PublishStream is swept.

    1,800 s (Handle Errors page); the .proto says 70 s.
    """
    publish_keepalive_seconds: float = 270.0
    """Silence on a PublishStream before a keepalive: within 270 s (Salesforce's Node client)."""
    publish_allocation: int | None = 250_000
    """Events published per hour by all clients. Real: 250,000 (Developer: 50,000). None: no limit.
    """
    publish_over: Literal["result", "status"] = "result"
    """Location of LIMIT_EXCEEDED: each event's result, or the status of the call. Not documented.
    """
    old_schema_publish: Literal["accept", "refuse"] = "accept"
    """Handling of an event with an older schema of its topic. Not known for live orgs."""
    stamp_created: bool = False
    """Replace CreatedDate and CreatedById of published events. Not known for live orgs."""

    # --- Protection -------------------------------------------------------------------------------
    fetches_per_second: int | None = None
    """Requests per second on a stream before `service.protection.stream.limit.triggered`.

    FetchRequests or PublishRequests. The real threshold is not known. None: no limit.
    """
    calls_per_second: int | None = None
    """Calls per second of an org before `service.protection.triggered`. Likewise not known."""
    max_clients: int | None = None
    """Streams of an org before `concurrent.client.limit.exceeded`. Likewise not known."""
    max_connection_age_seconds: float | None = None
    """Age at which the server ends a connection with GOAWAY. None: never.

    Not known; streams of 19 hours were seen.
    """
    auth_refresh_status: Literal["UNAUTHENTICATED", "INVALID_ARGUMENT"] = "UNAUTHENTICATED"
    """Status of `service.auth.refresh.invalid`. Not known for live orgs."""
    statuses: tuple[tuple[str, str], ...] = ()
    """Pairs of an error code, without its prefix, and its gRPC status.

    Many codes have no published status; the defaults follow their meaning.
    """

    # --- Random faults ----------------------------------------------------------------------------
    duplicate_rate: float = 0.0
    """Share of published events that are on the bus twice, with one id and two replay ids.

    As after a publisher's retry (event message durability page).
    """
    repeat_rate: float = 0.0
    """Share of events delivered twice with the same replay id: delivery is at least once."""
    reorder_rate: float = 0.0
    """Share of responses with their events in reverse order."""
    fault_rate: float = 0.0
    """Share of calls that fail; streams fail within their first 100 events.

    By RST_STREAM, GOAWAY, UNAVAILABLE or `service.unavailable`, as clients of live orgs have seen.
    """

    # --- The bus ----------------------------------------------------------------------------------
    seed: int = 0
    """Seed of the gaps between replay ids and of the sizes of responses."""
    retention_hours: float = 72.0
    """Retention of events (event message durability page)."""
    streaming_retention_hours: float = 24.0
    """Retention of PushTopic, generic and standard-volume events (Streaming API guide, durability).

    It is never longer than `retention_hours`.
    """
    purge_late_hours: float = 0.0
    """Extra time during which EARLIEST still finds them: the purge may be late (same page)."""
    replay_id_bytes: Literal[8, 10] = 10
    """Bytes of a replay id: 10 since September 2022, 8 before; both are accepted as a start."""
    replay_id_gap: int = 7
    """Largest step between two replay ids; 1 makes them contiguous, which live ids are not."""
    keepalive_drift: bool = True
    """A keepalive's replay id is ahead of the last event. False: it is the last issued id.

    The bus mixes several orgs' streams (Subscribe RPC page).
    """
    delivery_allocation: int | None = 50_000
    """Events delivered per 24 hours to all subscribers before `subscription.limit.exceeded`.

    Real: 50,000 (Unlimited), 25,000 (Enterprise), 10,000 (Developer). None: no limit.
    """

    # --- Topics, schemas, errors ------------------------------------------------------------------
    unknown_topic: Literal["PERMISSION_DENIED", "NOT_FOUND"] = "PERMISSION_DENIED"
    """Status of an unknown topic: `topic.meta.permission` (live logs) or `topic.not.found` (docs).
    """
    unknown_schema: Literal["NOT_FOUND", "PERMISSION_DENIED", "INVALID_ARGUMENT"] = "NOT_FOUND"
    """Status of an unknown schema id. Not known for live orgs."""
    unknown_schema_code: Literal["schema.meta.permission", "schema.validation.failed", ""] = (
        "schema.meta.permission"
    )
    """Its error code; empty for none. Not known for live orgs."""
    channel_schema: Literal["empty", "first"] = "empty"
    """Schema in GetTopic of a custom channel: none, or its first member's. Not known for live orgs.
    """
    snapshot_symbol: bool = True
    """Include SNAPSHOT in ChangeType, as live schemas since 2026; before, it had nine symbols."""
    state_picklists: bool = False
    """Addresses have StateCode and CountryCode; depends on the org."""
    change_event_ids: bool = True
    """Change events have a UUID as id. Documented: absent; live logs of two sources: present."""
    person_accounts: bool = False
    """Accounts can be persons: the name is text or a record, and a contact is behind the account.
    """
    records_per_event: int = 200
    """Most records in one change event for the same change in one transaction.

    Documented without a number; live events had 2 and 3.
    """
    overflow_changes: int = 100_000
    """Changes in one transaction before the rest becomes one GAP_OVERFLOW per object.

    Source: Change Data Capture guide.
    """
    diff_hash: Literal["own", "lf"] = "own"
    """Line breaks for the SHA-256 of a diff: the value's own (guide, v67) or LF (an older page)."""
    rpc_id_style: Literal["uuid", "hex32"] = "uuid"
    """Form of rpc ids; live services show both."""
    rst_stream_error: Literal[
        "NO_ERROR", "INTERNAL_ERROR", "REFUSED_STREAM", "CANCEL", "ENHANCE_YOUR_CALM"
    ] = "NO_ERROR"
    """HTTP/2 error of an RST_STREAM.

    Live: NO_ERROR for clients on gRPC's C core and in Node, INTERNAL_ERROR for .NET.
    """
    service_unavailable: Literal["INTERNAL", "UNAVAILABLE"] = "INTERNAL"
    """Status of `service.unavailable`: INTERNAL in live logs, UNAVAILABLE by gRPC's convention."""
    max_event_bytes: int = MEGABYTE
    """Largest event; a larger one is refused in its own result (Pub/Sub API guide, allocations)."""
    max_request_bytes: int = 4 * MEGABYTE
    """Largest request; a larger one ends with UNAVAILABLE from the service's proxy (live logs)."""

    # --- REST and Bulk API ------------------------------------------------------------------------
    query_batch: int = 2_000
    """Records in one page of a query result (REST API guide).

    The header Sforce-Query-Options requests fewer, at least 200.
    """
    bulk_polls: int = 0
    """Number of status requests for which a bulk job reports progress."""

    # --- Streaming API (CometD) -------------------------------------------------------------------
    cometd_time_scale: float = 1.0
    """Factor for the 110 s of a long poll and the 40 s to reconnect, to shorten tests.

    Source: Streaming API guide, clients and timeouts.
    """
    cometd_min_version: float = 23.0
    """Lowest API version in the URL.

    37.0 is the lowest supported one, and requests to 23.0 to 36.0 are routed to the newest
    (end-of-life page, v264); 37.0: they are refused (error codes, v67).
    """
    cometd_max_clients: int | None = None
    """CometD clients per org. None: no limit.

    Real: 2,000 (Unlimited), 1,000 (Enterprise), 20 (Developer).
    """
    cometd_topic_subscribers: int | None = None
    """Subscriptions of one PushTopic or generic channel before the next one is refused.

    The real number depends on the edition. None: no limit.
    """
    generic_channels: int | None = None
    """Generic channels per org before a further one is refused. Not known here. None: no limit."""
    dynamic_channels: bool = False
    """A subscription to an unknown generic channel creates it: a setting of the org."""
    cometd_cookie_hours: float = 3.0
    """Lifetime of the cookie that routes a client to its server: about 3 hours live.

    A request without the cookie reaches a server that does not know the client.
    """
    cometd_batch_events: int = 100
    """Most events in one response.

    Documented: several, without a number, for which a buffer of 10 MB suffices; that limit holds
    too.
    """
    cometd_multiple_clients: bool = False
    """The first connect's advice is for several clients in one browser, 2 s between connects.

    Both forms were seen live.
    """
    cometd_replay_error_spaces: Literal[1, 2] = 2
    """Spaces between the sentences of a refused replay id: two in live logs, one in the docs."""

    # --- Logins -----------------------------------------------------------------------------------
    token_idle_hours: float = 2.0
    """Idle time after which a token expires: the usual session setting of an org."""
    expiry_ends_streams: bool = False
    """A stream ends when its token expires or is revoked.

    Documented: it stays open; live orgs have ended it.
    """
    jwt_max_seconds: float = 300.0
    """Furthest `exp` of a JWT.

    5 minutes work for Salesforce's Node client; another client reports 3 minutes.
    """
    jwt_skew_seconds: float = 0.0
    """Time by which the login server's clock is ahead of the client's."""
    client_credentials_on_login_host: bool = False
    """Accept the client credentials grant on the login host. Real: only a My Domain accepts it."""
    client_credentials_flow: Literal["enabled", "no_user", "disabled"] = "enabled"
    """State of the client credentials grant in the app.

    The app may have no run-as user, or not have the flow enabled.
    """
    app_access: Literal["approved", "not_approved", "not_admin_approved", "not_installed"] = (
        "approved"
    )
    """Access of the user to the app, for every grant.

    Refused if neither the user nor an administrator has approved the app, or the org does not have
    it.
    """
    password_flow: bool = True
    """Allow the username-password grant.

    Newer orgs block it by default (Salesforce help). Their answer is not documented; here it is
    that of a wrong password.
    """
    refresh_needs_secret: bool = False
    """The refresh token grant needs the consumer secret: a setting of the app.

    A wrong secret is always refused.
    """
    soap_login: bool = True
    """An administrator has enabled SOAP login(). In new orgs it is disabled (help, 2026)."""
    soap_too_new: Literal["UNSUPPORTED_API_VERSION", "INVALID_OPERATION"] = (
        "UNSUPPORTED_API_VERSION"
    )
    """Fault of SOAP login() from API version 65.0 on, which removes it. The code is not known."""
    password_expired: bool = False
    """The answer to SOAP login() states that the user's password has expired."""

    def __post_init__(self) -> None:
        least, most = self.split
        if not 1 <= least <= most:
            raise ValueError(
                f"Knobs(response_events={self.response_events!r}) must be at least 1, least before "
                "most"
            )
        for name in (
            "keepalive_seconds",
            "idle_close_seconds",
            "max_outstanding",
            "max_streams_per_connection",
            "retention_hours",
            "streaming_retention_hours",
            "replay_id_gap",
            "records_per_event",
            "overflow_changes",
            "query_batch",
            "cometd_time_scale",
            "cometd_batch_events",
            "commit_deadline_seconds",
            "publish_idle_seconds",
            "publish_keepalive_seconds",
            "max_managed",
        ):
            if getattr(self, name) <= 0:
                raise ValueError(f"Knobs({name}={getattr(self, name)!r}) must be more than 0")
        self._check_choices()
        if wrong := [pair for pair in self.statuses if pair[1] not in STATUSES]:
            raise ValueError(f"Knobs(statuses=...): {wrong[0]!r} does not end with a gRPC status")
        for name in ("duplicate_rate", "repeat_rate", "reorder_rate", "fault_rate"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"Knobs({name}={getattr(self, name)!r}) is a share: 0 to 1")

    def _check_choices(self) -> None:
        for name, kind in get_type_hints(Knobs).items():
            value, known = getattr(self, name), get_args(kind)
            if get_origin(kind) is Literal and value not in known:
                raise ValueError(
                    f"Knobs({name}={value!r}) is not one of {', '.join(map(repr, known))}"
                )

    @property
    def split(self) -> tuple[int, int]:
        """Fewest and most events of one response."""
        size = self.response_events
        return (size, size) if isinstance(size, int) else size
