"""What holds while a world is explored: its surroundings, and which of the package's rules are left out."""

from __future__ import annotations

from dataclasses import dataclass

CLAIM = "a batch is claimed before anything is spent"
CHECK = "the claim is checked before what cannot be undone"
REREAD = "the position is read again when the batch is claimed"
RECEIPT = "nothing is committed without a receipt that adds up"
ADVANCE = "a position moves only over the batch that begins where it stands"
REPLACE = "landing replaces the rows of its batch"
IDENTITY = "landing leaves out what has landed in another batch"
KEEP_PARTS = "closed files of earlier attempts are kept"
FENCE = "an older form of a batch gives way to a newer one"
LEFT_OVERS = "left-overs of an earlier landing are removed"
BEGIN_ONCE = "a first run claims the beginning, and looks for a position again once it has it"

ONE_BEGINNING = "what a first run is about to begin is written once, for whoever takes over"

LIST_FIRST = (
    "a landing looks for other attempts before it makes its own folder, and again right after"
)
FIRST = "the form of a batch that has landed stays, and counts for whoever has another"
WORD = "a landing that fails says that it may have left files in the tables"

STAND_BACK = "a wait does not listen while somebody is at work on the batch"
CLAIM_LATEST = "a wait at `latest` claims before it listens"
CHECK_LATEST = "whoever asked at `latest` checks its claim when it has heard something, before it is written down"
LOOK_AGAIN = "a wait looks again at what is staged once it has its claim"
ANCHOR_BEHIND_FILES = "an anchor passes nothing that is in no closed file"
ANCHOR_AFTER = "an anchor says which file it follows, and counts only behind that one"

# Rules that the package does not follow; each is proposed with the story that comes of its absence (test_proposed.py).
ONE_EPOCH = (
    "the name of a first epoch follows from whose it is, so that all first runs begin the same one"
)
# In its stead a position is set or forgotten by hand only while no batch is staged, or by somebody who says that its job was ended.
EPOCHS = "a landing stops those of other epochs before it compares itself with what has landed"
NOT_YET = frozenset({ONE_EPOCH, EPOCHS})
RULES = frozenset(
    {
        CLAIM,
        CHECK,
        REREAD,
        RECEIPT,
        ADVANCE,
        REPLACE,
        IDENTITY,
        KEEP_PARTS,
        FENCE,
        LEFT_OVERS,
        BEGIN_ONCE,
        ONE_BEGINNING,
        LIST_FIRST,
        FIRST,
        WORD,
        STAND_BACK,
        CLAIM_LATEST,
        CHECK_LATEST,
        LOOK_AGAIN,
        ANCHOR_BEHIND_FILES,
        ANCHOR_AFTER,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Without an argument: two hosts that share one staging area, and the rules that the package follows.

    :param one_host: attempts see each other's processes; otherwise only the beat tells.
    :param one_at_a_time: `max_active_runs=1`.
    :param exclusive_create: of two that create a file at once, the store lets one win.
    :param ends_early: a fetch may end after any event, by time or by an error.
    :param max_events: of a batch.
    :param initial_replay: where a first run starts.
    :param keep_batches: what sweeping leaves.
    :param breaks: the rules that are left out; more than those shows that breaking one is noticed.
    """

    one_host: bool = False
    one_at_a_time: bool = False
    exclusive_create: bool = True
    ends_early: bool = False
    max_events: int = 2
    initial_replay: str = "earliest"
    keep_batches: int = 10
    breaks: frozenset[str] = NOT_YET

    def __post_init__(self) -> None:
        if unknown := self.breaks - RULES - NOT_YET:
            raise ValueError(f"no such rule: {', '.join(sorted(unknown))}")

    def keeps(self, rule: str) -> bool:
        return rule not in self.breaks
