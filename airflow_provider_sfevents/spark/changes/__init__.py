"""Change events to the records they changed.

Decisions on plain values, for the driver and for executors.
"""
