"""Full records of an org, over REST and the Bulk API: for filling tables, and for answering what no event tells."""

from __future__ import annotations
