"""Where the emulator can be set to behave one way or another: what the sources disagree on, and what tests need fast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
    delivery_allocation: int | None = None
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
        ):
            if getattr(self, name) <= 0:
                raise ValueError(f"Knobs({name}={getattr(self, name)!r}) must be more than 0")

    @property
    def split(self) -> tuple[int, int]:
        """Least and most events of one response."""
        size = self.response_events
        return (size, size) if isinstance(size, int) else size
