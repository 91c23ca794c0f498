from __future__ import annotations

from airflow_provider_sfevents.command_lines import command_line


def test_words_are_quoted_for_a_shell_and_placeholders_stay() -> None:
    """A filter of a PushTopic is quoted, since `&` ends a command; a placeholder is for people."""
    assert command_line("position", "set", "load", "/topic/Orders?A=1&B=2", "<replay id>") == (
        "airflow sfevents position set load '/topic/Orders?A=1&B=2' <replay id>"
    )
