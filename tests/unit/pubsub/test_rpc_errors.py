"""Table of error codes, row by row, and the error of a failed RPC."""

from __future__ import annotations

import grpc
import grpc.aio
import pytest

from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ConfigurationError,
    QuotaExceededError,
    ReplayIdRefusedError,
    SchemaUnknownError,
    SfEventsError,
    TopicError,
    TransportError,
)
from airflow_provider_sfevents.hooks.airflow_errors import NEVER_RETRIED
from airflow_provider_sfevents.pubsub.auth.secret import Secret
from airflow_provider_sfevents.pubsub.error_codes import BY_CODE, CODES, PREFIX, RETRIED, ErrorKind
from airflow_provider_sfevents.pubsub.reconnect import next_step
from airflow_provider_sfevents.pubsub.rpc_errors import (
    ERRORS,
    OwnFaultError,
    TokenRefusedError,
    from_rpc,
    is_transient,
    took_nothing,
    translate,
)

TRANSIENT = {
    "concurrent.client.limit.exceeded",
    "service.unavailable",
    "service.protection.stream.limit.triggered",
    "service.protection.triggered",
    "topic.api.unavailable",
    "schema.api.unavailable",
    "subscription.fetch.replay.repeated",
    "subscription.internal.error",
    "publish.stream.sweeper.timeout",
    "managed.subscription.already.active",
    "managed.subscription.developer.name.not.found",
    "managed.subscription.subscription.id.not.found",
}
KINDS: dict[str, type[SfEventsError]] = {
    "service.auth.error": TokenRefusedError,
    "service.auth.headers.invalid": AuthenticationError,
    "service.auth.refresh.invalid": OwnFaultError,
    "service.tenant.license": ConfigurationError,
    "topic.not.found": TopicError,
    "topic.meta.permission": TopicError,
    "topic.validation.empty": TopicError,
    "schema.meta.permission": ConfigurationError,
    "schema.validation.failed": SchemaUnknownError,
    "subscription.fetch.replayid.corrupted": ReplayIdRefusedError,
    "subscription.fetch.replayid.validation.failed": ReplayIdRefusedError,
    "subscription.limit.exceeded": QuotaExceededError,
    "subscription.fetch.overflow": OwnFaultError,
    "subscription.fetch.requested.events.invalid": OwnFaultError,
    "subscription.fetch.topic.mismatch": OwnFaultError,
    "subscription.fetch.request.invalid": OwnFaultError,
    "subscription.topic.cannot.subscribe": TopicError,
    "publish.auth.refresh.invalid": OwnFaultError,
    "publish.event.count.invalid": OwnFaultError,
    "publish.topic.mismatch": OwnFaultError,
    "publish.topic.validation.empty": TopicError,
    "managed.subscription.config.stopped": ConfigurationError,
    "managed.subscription.config.deleted": ConfigurationError,
    "managed.subscription.subscription.id.invalid": ConfigurationError,
    "managed.subscription.id.or.developer.name.empty": ConfigurationError,
    "managed.subscription.fetch.request.events.invalid": OwnFaultError,
    "managed.subscription.fetch.request.invalid": OwnFaultError,
    "managed.subscription.fetch.request.commit.request.restricted": OwnFaultError,
    "managed.subscription.fetch.request.auth.request.restricted": OwnFaultError,
    **dict.fromkeys(TRANSIENT, TransportError),
}


def failed(
    status: str, code: str = "", details: str = "It broke.", rpc_id: str = "", rpc: str = ""
) -> SfEventsError:
    return translate(
        "Subscribing to /event/X__e at h:1",
        status=status,
        details=details,
        code=code,
        rpc_id=rpc_id,
        rpc=rpc,
    )


def test_every_code_has_a_row_here() -> None:
    """A code that is added to the table is given a meaning in this test as well."""
    assert set(KINDS) == set(BY_CODE)


@pytest.mark.parametrize("code", sorted(KINDS))
@pytest.mark.parametrize("status", ["INTERNAL", "INVALID_ARGUMENT"])
def test_a_code_decides_whatever_the_status(code: str, status: str) -> None:
    """The `error-code` trailer decides the meaning; the status beside it varies and is ignored."""
    error = failed(status, PREFIX + code, rpc_id="abc-1")
    assert type(error) is KINDS[code]
    assert is_transient(error) is (code in TRANSIENT)


@pytest.mark.parametrize("code", sorted(KINDS))
def test_a_message_names_all_that_is_needed(code: str) -> None:
    """A message has the call, the service's words, the code, the rpc id, and the remedy."""
    text = str(failed("INTERNAL", PREFIX + code, "It broke. rpcId: abc-1", "abc-1"))
    assert text.startswith("Subscribing to /event/X__e at h:1 failed: It broke (")
    assert f"({code}, rpc id abc-1). {BY_CODE[code].remedy}" in text
    assert text.count("abc-1") == 1


@pytest.mark.parametrize("code", ["", PREFIX + "topic.not.found"])
def test_an_rpc_id_only_the_text_tells(code: str) -> None:
    """Without the trailer, the rpc id is taken from the service's own words."""
    text = str(failed("NOT_FOUND", code, "It broke. rpcId: 0ab-9"))
    assert "It broke (" in text
    assert text.count("0ab-9") == 1
    assert "rpc id 0ab-9)" in text


@pytest.mark.parametrize(
    ("status", "details", "kind"),
    [
        ("UNAVAILABLE", "RST_STREAM closed stream. HTTP/2 error code: NO_ERROR", TransportError),
        ("INTERNAL", "Received RST_STREAM with code 0", TransportError),
        (
            "UNAVAILABLE",
            "upstream connect error or disconnect/reset before headers",
            TransportError,
        ),
        ("DEADLINE_EXCEEDED", "Deadline Exceeded", TransportError),
        ("UNKNOWN", "", TransportError),
        ("UNAUTHENTICATED", "no", TokenRefusedError),
        ("PERMISSION_DENIED", "no", ConfigurationError),
        ("NOT_FOUND", "no", ConfigurationError),
        ("INVALID_ARGUMENT", "no", ConfigurationError),
        ("UNIMPLEMENTED", "Method not found!", ConfigurationError),
        ("UNAVAILABLE", "Tls handshake failed: CERTIFICATE_VERIFY_FAILED", ConfigurationError),
        ("UNAVAILABLE", "Hostname Verification Check failed.", ConfigurationError),
        ("UNAVAILABLE", "OPENSSL_internal:WRONG_VERSION_NUMBER", ConfigurationError),
        ("UNAVAILABLE", "Trying to connect an http1.x server", ConfigurationError),
        ("UNKNOWN", "Received http2 header with status: 415", ConfigurationError),
        ("UNAVAILABLE", "Received http2 header with status: 503", TransportError),
        ("UNAVAILABLE", "Received http2 header with status: 429", TransportError),
        ("NOT_FOUND", "Socket closed", TransportError),
        ("NOT_FOUND", "Received RST_STREAM with code 0", TransportError),
        ("DEADLINE_EXCEEDED", "No CommitReplayRequests sent in 1800 seconds", TransportError),
        ("RESOURCE_EXHAUSTED", "Received message larger than max (5 vs. 4)", OwnFaultError),
        ("RESOURCE_EXHAUSTED", "no", TransportError),
    ],
)
def test_without_a_code_the_wire_is_read(
    status: str, details: str, kind: type[SfEventsError]
) -> None:
    """Without a code gRPC's words decide, then the status, which never refuses a replay id."""
    error = failed(status, details=details)
    assert type(error) is kind
    assert status in str(error)


def test_a_code_counts_more_than_the_words_beside_it() -> None:
    """A known code decides even if the text reads like a failure of the connection."""
    cut = "Received RST_STREAM with code 0"
    assert type(failed("UNAVAILABLE", PREFIX + "topic.not.found", cut)) is TopicError
    no_schema = failed("NOT_FOUND", PREFIX + "schema.meta.permission", cut, rpc="GetSchema")
    assert type(no_schema) is SchemaUnknownError


@pytest.mark.parametrize(
    ("details", "code", "nothing"),
    [
        ("failed to connect to all addresses; last error: Connection refused", "", True),
        ("errors resolving x:1: [field:hostname lookup error:Domain name not found]", "", True),
        ("Received RST_STREAM with error code 7", "", True),
        ("The service is unavailable.", "service.unavailable", True),
        ("No such topic.", "topic.not.found", True),
        ("Received RST_STREAM with error code 2", "", False),
        ("recvmsg:Connection reset by peer", "", False),
        ("Socket closed", "", False),
        ("upstream connect error or disconnect/reset before headers", "", False),
        ("It broke.", "publish.of.the.future", False),
        ("failed to connect to all addresses", "publish.of.the.future", False),
    ],
)
def test_a_call_that_the_service_certainly_did_not_carry_out(
    details: str, code: str, nothing: bool
) -> None:
    """A call was certainly not carried out if it found no connection or was refused."""
    error = failed("UNAVAILABLE", code and PREFIX + code, details)
    assert took_nothing(error) is nothing


def test_a_proxy_that_answers_does_not_deny_a_schema() -> None:
    """NOT_FOUND of a server that is not the Pub/Sub API says nothing about a schema."""
    error = failed("NOT_FOUND", details="Received http2 header with status: 404", rpc="GetSchema")
    assert type(error) is ConfigurationError
    assert "is not the Pub/Sub API" in str(error)


def test_a_service_without_resources_is_asked_less_often() -> None:
    """RESOURCE_EXHAUSTED without a code has the remedy of an overload."""
    assert "with fewer subscriptions and publishes at once" in str(failed("RESOURCE_EXHAUSTED"))


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        ("NOT_FOUND", "", SchemaUnknownError),
        ("NOT_FOUND", "schema.meta.permission", SchemaUnknownError),
        ("NOT_FOUND", "schema.of.the.future", SchemaUnknownError),
        ("INVALID_ARGUMENT", "", SchemaUnknownError),
        ("INVALID_ARGUMENT", "schema.validation.failed", SchemaUnknownError),
        ("INVALID_ARGUMENT", "schema.meta.permission", ConfigurationError),
        ("PERMISSION_DENIED", "", ConfigurationError),
        ("PERMISSION_DENIED", "schema.meta.permission", ConfigurationError),
        ("PERMISSION_DENIED", "schema.of.the.future", ConfigurationError),
        ("NOT_FOUND", "schema.api.unavailable", TransportError),
        ("INVALID_ARGUMENT", "service.unavailable", TransportError),
        ("NOT_FOUND", "service.auth.error", TokenRefusedError),
        ("UNAUTHENTICATED", "", TokenRefusedError),
        *(
            (status, code, TransportError)
            for status in (
                "UNAVAILABLE",
                "INTERNAL",
                "DEADLINE_EXCEEDED",
                "RESOURCE_EXHAUSTED",
                "UNKNOWN",
                "CANCELLED",
                "ABORTED",
            )
            for code in ("", "schema.of.the.future")
        ),
    ],
)
def test_a_schema_is_unknown_only_where_the_service_says_so(
    status: str, code: str, kind: type[SfEventsError]
) -> None:
    """Only the service's own denial makes a schema unknown."""
    error = failed(status, code and PREFIX + code, rpc="GetSchema")
    assert type(error) is kind


def test_another_call_knows_no_unknown_schema() -> None:
    """NOT_FOUND of another RPC is not about a schema."""
    assert type(failed("NOT_FOUND", rpc="GetTopic")) is ConfigurationError


def test_a_code_of_the_future() -> None:
    """An unknown code is shown with its status, which decides the meaning."""
    error = failed("UNAVAILABLE", PREFIX + "something.new", rpc_id="r")
    assert type(error) is TransportError
    assert "(something.new, UNAVAILABLE, rpc id r)" in str(error)


def test_trailers_and_secret_of_a_real_rpc_error() -> None:
    """Code and rpc id come from the trailers; a token that the service quotes is masked."""
    trailers = grpc.aio.Metadata(("error-code", PREFIX + "service.unavailable"), ("rpc-id", "r-1"))
    rpc = grpc.aio.AioRpcError(
        grpc.StatusCode.INTERNAL, grpc.aio.Metadata(), trailers, details="token 00D!s3cret is odd"
    )
    error = from_rpc(rpc, "Looking up /event/X__e", Secret("00D!s3cret"))
    assert isinstance(error, TransportError)
    assert (error.error_code, error.rpc_id) == (PREFIX + "service.unavailable", "r-1")
    assert "s3cret" not in str(error)
    assert "token *** is odd" in str(error)


@pytest.mark.parametrize("kind", ErrorKind)
def test_what_is_said_of_trying_again_is_what_is_done(kind: ErrorKind) -> None:
    """The retries on the page of errors are those that client and task do for the kind of error."""
    error = ERRORS[kind]("it broke")
    step = next_step(error, tries=0, renewed=False, chance=0.0)
    by_task = not isinstance(error, NEVER_RETRIED)
    if step is None:
        assert RETRIED[kind] == ("by the task's retries alone" if by_task else "no")
    elif step.renew:
        assert RETRIED[kind] == "once, after a new login"
    else:
        assert RETRIED[kind].startswith("yes")
        assert by_task


def test_every_code_says_what_it_means() -> None:
    """Each code has one sentence, no code stands there twice, and no suffix repeats the prefix."""
    suffixes = [one.suffix for one in CODES]
    assert len(set(suffixes)) == len(suffixes)
    assert [one.suffix for one in CODES if not one.means.endswith(".")] == []
    assert [one for one in suffixes if one.startswith("sfdc")] == []
