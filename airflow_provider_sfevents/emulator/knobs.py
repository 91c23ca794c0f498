"""Where the emulator can be set to behave one way or another: what the sources disagree on, and what tests need fast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from airflow_provider_sfevents.emulator.errors import STATUSES

MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """Every default is what a live org was last seen to do, or else what Salesforce documents.

    Each text below says what the real service does and who says so.
    """

    # --- Subscribe: timers -------------------------------------------------------------------------------------------
    keepalive_seconds: float = 120.0
    """Silence before an empty response. Documented: within 270 s (Subscribe RPC page); live orgs: 60 s in 2023, exactly
    120 s in 2026."""
    idle_close_seconds: float = 60.0
    """How long a stream with nothing outstanding stays open: 60 s (Subscribe RPC page); a comment in Salesforce's Java
    sample says 70 s."""
    idle_close_status: Literal["OK", "UNAVAILABLE"] = "OK"
    """How that stream ends. Not documented; both have been reported."""
    half_close_seconds: float = 0.3
    """From the client's half-close to the end of the stream with OK, without further messages (live logs, 2026)."""

    # --- Subscribe: credit and responses -----------------------------------------------------------------------------
    max_outstanding: int = 100
    """Events asked for and not yet delivered, across all requests of a stream (Pub/Sub API guide, flow control)."""
    over_limit: Literal["clamp", "reject"] = "clamp"
    """What asking for more does. The guide: treated as 100. One production client says it is refused."""
    response_events: int | tuple[int, int] = (1, 16)
    """Events in one response: a fixed number, or least and most of a random one. There is no relation between requests
    and responses; live logs show 1 to 16."""
    max_response_bytes: int = 3 * MEGABYTE
    """A response is kept below this (Pub/Sub API guide, allocations)."""
    round_trip_seconds: float = 0.0
    """Round-trip time to imitate; each request takes effect this much later."""
    spread_seconds: float = 0.0
    """Time over which 100 events are spread; a response of n events leaves n/100 of it after the one before."""

    max_streams_per_connection: int = 1000
    """RPCs at once on one HTTP/2 connection (Pub/Sub API guide, allocations). A client's next one waits on its own side
    until another ends."""

    # --- ManagedSubscribe --------------------------------------------------------------------------------------------
    managed_propagation_seconds: float = 120.0
    """By the emulator's clock: how long the service does not know of a config, or of its change, that came over REST.
    Documented: several minutes. What the test's own verbs do is known at once."""
    slot_hold_seconds: float = 15.0
    """How long a managed subscription is taken after its client left: less than 15 s (live logs). Meanwhile others get
    `already.active`."""
    half_open_seconds: float = 900.0
    """How long the service holds what the network has cut without a word, see `drop_connections("half_open")`: some 15
    minutes (live logs)."""
    commit_deadline_seconds: float = 1800.0
    """A managed stream without a CommitReplayRequest for so long is closed with DEADLINE_EXCEEDED (live logs)."""
    commit_deadline_code: str = ""
    """Error code beside it; empty for none. Unknown in reality."""
    commit_response_seconds: float = 1.0
    """From a commit to its answer; those that come until then are answered together (Managed Subscribe RPC page; about
    one second in live logs)."""
    commit_reach: Literal["stream", "subscription"] = "stream"
    """What counts as delivered before a commit: what this stream was told of, or what any of the subscription's was.
    Unknown in reality."""
    managed_id_and_name: Literal["refuse", "id"] = "refuse"
    """A first request with both: the documented text of the error is about both, its name about none. `id`: the id
    counts."""
    max_managed: int = 200
    """Managed event subscriptions of an org (Pub/Sub API guide, allocations)."""

    # --- Publish and PublishStream -----------------------------------------------------------------------------------
    publish_idle_seconds: float = 1800.0
    """A PublishStream without a request for so long is swept: 1,800 s (Handle Errors page); the .proto says 70 s."""
    publish_keepalive_seconds: float = 270.0
    """Silence on a PublishStream before a response without results: within 270 s (Salesforce's Node client)."""
    publish_allocation: int | None = 250_000
    """Events published per hour, by all clients together. Real: 250,000 (Developer: 50,000). None: no limit."""
    publish_over: Literal["result", "status"] = "result"
    """Where LIMIT_EXCEEDED is said then: in each event's result, or as the status of the call. Not documented."""
    old_schema_publish: Literal["accept", "refuse"] = "accept"
    """An event written with an older schema of its topic. Unknown in reality."""
    stamp_created: bool = False
    """Whether the server puts its own CreatedDate and CreatedById into what is published. Unknown in reality."""

    # --- Protection --------------------------------------------------------------------------------------------------
    fetches_per_second: int | None = None
    """FetchRequests or PublishRequests on one stream before `service.protection.stream.limit.triggered`. The threshold
    is unknown. None: no limit."""
    calls_per_second: int | None = None
    """Calls of an org before `service.protection.triggered`. Likewise unknown."""
    max_clients: int | None = None
    """Streams of an org at once, of all topics, before `concurrent.client.limit.exceeded`. Likewise unknown."""
    max_connection_age_seconds: float | None = None
    """Age at which the server ends a connection with GOAWAY. Unknown; streams of 19 hours were seen. None: never."""
    auth_refresh_status: Literal["UNAUTHENTICATED", "INVALID_ARGUMENT"] = "UNAUTHENTICATED"
    """Status of `service.auth.refresh.invalid`. Unknown in reality."""
    statuses: tuple[tuple[str, str], ...] = ()
    """Pairs of an error code, without its prefix, and the gRPC status it is to have. Of many codes no status is
    published; the usual ones are guessed from their meaning."""

    # --- What goes wrong by itself, by rate --------------------------------------------------------------------------
    duplicate_rate: float = 0.0
    """Share of published events that are on the bus twice: the same id under two replay ids, as after a publisher's
    retry (event message durability page)."""
    repeat_rate: float = 0.0
    """Share of events that are delivered twice, with the same replay id: delivery is at least once."""
    reorder_rate: float = 0.0
    """Share of responses whose events come in reverse order."""
    fault_rate: float = 0.0
    """Share of calls that fail: a stream after up to 100 events, by RST_STREAM, GOAWAY, UNAVAILABLE or
    `service.unavailable`, as clients of live orgs have seen."""

    # --- The bus -----------------------------------------------------------------------------------------------------
    seed: int = 0
    """Makes gaps between replay ids and sizes of responses repeatable."""
    retention_hours: float = 72.0
    """How long events are kept (event message durability page)."""
    purge_late_hours: float = 0.0
    """How much longer EARLIEST still finds them: the purge may be late (same page)."""
    replay_id_bytes: Literal[8, 10] = 10
    """Live ids have 10 bytes since September 2022, had 8 before; both are accepted as a start."""
    replay_id_gap: int = 7
    """Largest step between two replay ids; 1 makes them contiguous. Live ones are not, though +1 is frequent."""
    keepalive_drift: bool = True
    """A keepalive's replay id lies ahead of the last event, since the bus mixes several orgs' streams (Subscribe RPC
    page). False: it is the last id that was given out."""
    delivery_allocation: int | None = 50_000
    """Events delivered per 24 hours, all subscribers together, before `subscription.limit.exceeded`. Real: 50,000
    (Unlimited), 25,000 (Enterprise), 10,000 (Developer). None: no limit."""

    # --- Topics, schemas, errors -------------------------------------------------------------------------------------
    unknown_topic: Literal["PERMISSION_DENIED", "NOT_FOUND"] = "PERMISSION_DENIED"
    """`topic.meta.permission` (live logs) or `topic.not.found` (documentation)."""
    unknown_schema: Literal["NOT_FOUND", "PERMISSION_DENIED", "INVALID_ARGUMENT"] = "NOT_FOUND"
    """Status for a schema id nobody knows. Unknown in reality."""
    unknown_schema_code: Literal["schema.meta.permission", "schema.validation.failed", ""] = (
        "schema.meta.permission"
    )
    """Error code beside it; empty for none. Unknown in reality."""
    channel_schema: Literal["empty", "first"] = "empty"
    """What GetTopic says as schema of a multi-type channel: nothing, or its first member's. Unknown in reality."""
    snapshot_symbol: bool = True
    """Whether ChangeType has the tenth symbol SNAPSHOT, as live schemas since 2026; before it had nine."""
    state_picklists: bool = False
    """Whether addresses have StateCode and CountryCode; depends on the org."""
    change_event_ids: bool = True
    """Whether a change event carries a UUID as its id. Documented: absent; live logs of two sources: there."""
    person_accounts: bool = False
    """Whether an account may be a person: its name is text or a record then, and a contact stands behind it."""
    records_per_event: int = 200
    """Most records that share a change event where the same was done to them in one transaction; 1: each has its own.
    Documented without a number; live events had 2 and 3."""
    overflow_changes: int = 100_000
    """Changes of one transaction before the rest becomes one GAP_OVERFLOW for each object (Change Data Capture guide)."""
    diff_hash: Literal["own", "lf"] = "own"
    """Over which line breaks the SHA-256 in a diff is taken: the value's own (guide, v67), or line feeds (an older page)."""
    rpc_id_style: Literal["uuid", "hex32"] = "uuid"
    """Live services show both."""
    rst_stream_error: Literal[
        "NO_ERROR", "INTERNAL_ERROR", "REFUSED_STREAM", "CANCEL", "ENHANCE_YOUR_CALM"
    ] = "NO_ERROR"
    """HTTP/2 error of an RST_STREAM. Live: NO_ERROR for clients on gRPC's C core and in Node, INTERNAL_ERROR for .NET."""
    service_unavailable: Literal["INTERNAL", "UNAVAILABLE"] = "INTERNAL"
    """Status of `service.unavailable`: INTERNAL in live logs, UNAVAILABLE by gRPC's own habit."""
    max_event_bytes: int = MEGABYTE
    """A larger event is refused in its own result, the others are published (Pub/Sub API guide, allocations)."""
    max_request_bytes: int = 4 * MEGABYTE
    """A larger request ends with UNAVAILABLE from the proxy in front of the service (live logs)."""

    # --- REST and Bulk API -------------------------------------------------------------------------------------------
    query_batch: int = 2_000
    """Records in one answer to a query (REST API guide). The header Sforce-Query-Options asks for less, 200 at least."""
    bulk_polls: int = 0
    """How often a bulk job is said to be in progress before it is complete."""

    # --- Streaming API (CometD) --------------------------------------------------------------------------------------
    cometd_time_scale: float = 1.0
    """What the 110 s of a long poll and the 40 s in which a client must connect again are multiplied with, to have them
    shorter in tests (Streaming API guide, clients and timeouts)."""
    cometd_min_version: float = 23.0
    """Lowest API version in the URL. 37.0 is the lowest supported one, and requests to 23.0 to 36.0
    are routed to the newest (end-of-life page, v264); 37.0: they are refused (error codes, v67)."""
    cometd_max_clients: int | None = None
    """CometD clients of an org at once. Real: 2,000 (Unlimited), 1,000 (Enterprise), 20 (Developer). None: no limit."""
    cometd_cookie_hours: float = 3.0
    """Life of the cookie that leads a client to its server: about 3 hours live. Who comes without it is unknown there."""
    cometd_batch_events: int = 100
    """Most events in one response. Documented: several, without a number; a buffer of 10 MB should do, which is kept too."""
    cometd_multiple_clients: bool = False
    """Whether the first connect's advice is that of several clients in one browser, with 2 s between connects; both were
    seen live."""
    cometd_replay_error_spaces: Literal[1, 2] = 2
    """Spaces between the sentences that refuse a replay id: two in live logs, one in the documentation."""

    # --- Logins ------------------------------------------------------------------------------------------------------
    token_idle_hours: float = 2.0
    """A token unused for so long is expired: the usual session setting of an org."""
    expiry_ends_streams: bool = False
    """Whether a stream ends when its token expires or is revoked. Documented: it goes on; live orgs have ended it."""
    jwt_max_seconds: float = 300.0
    """Furthest `exp` of a JWT: 5 minutes work for Salesforce's Node client; another says 3 minutes are the limit."""
    jwt_skew_seconds: float = 0.0
    """How far the login server's clock is ahead of the client's."""
    client_credentials_on_login_host: bool = False
    """Real: this grant is refused on login.salesforce.com and answered on My Domain only."""
    client_credentials_flow: Literal["enabled", "no_user", "disabled"] = "enabled"
    """How the app is set up for this grant: it may have no run-as user, or not have the flow enabled."""
    app_access: Literal["approved", "not_approved", "not_admin_approved", "not_installed"] = (
        "approved"
    )
    """Whether the user may use the app: not if neither the user nor an administrator has approved it, or the org does not
    have it. For every grant."""
    password_flow: bool = True
    """Whether the username-password grant is let through. Newer orgs block it by default (Salesforce help); their answer is
    not documented, here it is that of a wrong password."""
    refresh_needs_secret: bool = False
    """Whether the refresh token grant needs the consumer secret: a setting of the app. A wrong one is refused anyway."""
    soap_login: bool = True
    """Whether an administrator has enabled SOAP login(). In new orgs it is disabled (Salesforce help, 2026)."""
    soap_too_new: Literal["UNSUPPORTED_API_VERSION", "INVALID_OPERATION"] = (
        "UNSUPPORTED_API_VERSION"
    )
    """Fault of SOAP login() from API version 65.0 on, which do not have it. The code is not known."""
    password_expired: bool = False
    """Whether the answer to SOAP login() says that the user's password has expired."""

    def __post_init__(self) -> None:
        least, most = self.split
        if not 1 <= least <= most:
            raise ValueError(
                f"Knobs(response_events={self.response_events!r}) must be at least 1, least before most"
            )
        for name in (
            "keepalive_seconds",
            "idle_close_seconds",
            "max_outstanding",
            "max_streams_per_connection",
            "retention_hours",
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
        if wrong := [pair for pair in self.statuses if pair[1] not in STATUSES]:
            raise ValueError(f"Knobs(statuses=...): {wrong[0]!r} does not end with a gRPC status")
        for name in ("duplicate_rate", "repeat_rate", "reorder_rate", "fault_rate"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"Knobs({name}={getattr(self, name)!r}) is a share: 0 to 1")

    @property
    def split(self) -> tuple[int, int]:
        """Least and most events of one response."""
        size = self.response_events
        return (size, size) if isinstance(size, int) else size
