"""Change events to the records they changed: decisions on plain values, for the driver and for executors."""
