"""Waits for events: a sensor's poke, a trigger's wait, and the watcher with its rules."""

from __future__ import annotations
