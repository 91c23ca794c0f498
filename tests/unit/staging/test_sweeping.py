from __future__ import annotations

from hypothesis import given, strategies as st

from airflow_provider_sfevents.staging.sweeping import BatchState, to_sweep

states = st.lists(
    st.builds(
        BatchState,
        epoch=st.sampled_from(["old", "new"]),
        batch_number=st.integers(1, 5),
        staged=st.booleans(),
        landed=st.booleans(),
        held=st.booleans(),
    ),
    unique_by=lambda state: (state.epoch, state.batch_number),
)
places = st.one_of(st.none(), st.tuples(st.sampled_from(["old", "new"]), st.integers(1, 5)))


@given(states, places)
def test_nothing_that_may_be_needed_goes(
    old: list[BatchState], newest: tuple[str, int] | None
) -> None:
    """A swept batch is not held, not the newest receipt, and landed or of an older epoch."""
    for state in to_sweep(old, newest, "new"):
        assert not state.held
        assert (state.epoch, state.batch_number) != newest
        assert state.landed or (state.epoch == "old" and not state.staged)


@given(states)
def test_what_has_landed_goes(old: list[BatchState]) -> None:
    """Old landed batches that are not held are swept."""
    swept = to_sweep(old, None, "new")
    assert [state for state in old if state.landed and not state.held and state not in swept] == []
