"""Servers, ports and certificates of a running emulator."""
