"""Avro payloads to Arrow columns: the reference decoder, the accelerated one, and validation."""
