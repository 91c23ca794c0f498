"""State that the APIs of an emulator share: sessions, call log, limits, open streams."""
