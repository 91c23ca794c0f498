"""The org behind the bus: objects with records, their changes as change events, and the REST faces that read and write them."""
