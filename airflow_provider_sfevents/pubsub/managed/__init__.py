"""Managed event subscriptions, whose position Salesforce keeps."""

from __future__ import annotations
