"""The emulator's admin API on a My Domain's port, for its command line: JSON under /emulator/."""
