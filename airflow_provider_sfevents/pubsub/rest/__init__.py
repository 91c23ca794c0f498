"""REST API of an org: full records (also by the Bulk API), topics and channels, and its limits."""

from __future__ import annotations
