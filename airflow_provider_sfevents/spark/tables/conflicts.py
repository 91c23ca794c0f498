"""Whether a commit failed because another one came first. The formats say so by exceptions of their own, which Spark wraps in others."""

from __future__ import annotations

import re

_CONFLICT = re.compile(
    r"io\.delta\.exceptions\.\w*Concurrent\w*Exception|delta\.\w*Concurrent\w*Exception|MetadataChangedException|ProtocolChangedException"
    r"|DELTA_CONCURRENT|DELTA_METADATA_CHANGED|DELTA_PROTOCOL_CHANGED|TABLE_OR_VIEW_ALREADY_EXISTS|TableAlreadyExistsException"
    r"|iceberg\.exceptions\.(?:AlreadyExists|CommitFailed|Validation)Exception"
)
_MOST_CAUSES = 20


def is_conflict(error: BaseException) -> bool:
    """Whether a commit failed because another one came first, so that looking again is all it takes."""
    return bool(_CONFLICT.search(java_text(error)))


def java_text(error: BaseException) -> str:
    """What an error says, and what Java says that caused it."""
    said = [str(error)]
    cause = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    for _ in range(_MOST_CAUSES):
        if cause is None:
            break
        said.append(str(cause.toString()))
        cause = cause.getCause()
    return "\n".join(said)
