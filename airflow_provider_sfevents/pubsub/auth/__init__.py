"""Login to Salesforce: settings, secrets, sessions and HTTP to the org."""

from __future__ import annotations
