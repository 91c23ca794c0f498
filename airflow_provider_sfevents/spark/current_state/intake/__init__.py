"""The events of an apply: found in the event tables, joined with held ones, sorted, remembered."""
