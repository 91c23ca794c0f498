"""Ids of schemas, as Salesforce documents them, by another library's canonical form."""

from __future__ import annotations

import base64
import json

import fastavro


def fingerprint(schema_json: str) -> str:
    """Id of a schema: MD5 of its parsing canonical form, in base64 for URLs without padding."""
    canonical = fastavro.schema.to_parsing_canonical_form(json.loads(schema_json))
    digest = bytes.fromhex(fastavro.schema.fingerprint(canonical, "MD5"))
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
