"""Batches of a managed subscription, whose replay id Salesforce keeps."""

from __future__ import annotations
