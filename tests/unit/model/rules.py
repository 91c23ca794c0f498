"""Surroundings of an exploration, and the package's rules, each of which can be left out."""

from __future__ import annotations

from dataclasses import dataclass, replace

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
BEGIN_ONCE = "a first run claims the beginning, and reads the position again under that claim"
ONE_BEGINNING = (
    "the first record of an epoch is written once in its area, for each task that takes over"
)
LIST_FIRST = "a landing looks for other attempts before and after it makes its own folder"
FIRST = "the form of a batch that has landed stays, and counts for each task that has another"
WORD = "a landing that fails records that it may have left files in the tables"

UNCHANGED = "a record is written only if the store still holds the record that the task goes by"
READ_BACK = "a record is read back before anything follows from it"
READ_AGAIN = "the position is read again before landing"
ELSEWHERE = "a position pinned to an event that is staged in another area is refused"
RESUME_EMPTY = "a keepalive goes into the position only if nothing of the batch is staged"
CARRY_END = "events beyond a batch are kept only if the manifest that counts ends before them"
CARRY_EMPTY = "events beyond a batch are kept only if nothing of the next batch is there"
NO_PLACE = "Salesforce's place is used only by an area that holds what was committed there"
TAKE_AREA = "the position names the area before Salesforce keeps a place that is staged there"
OWED = "what is made up at Salesforce is the end of the batch that the position is at"
LAST_PLACE = "Salesforce's place counts only if it was kept since the position names the area"
FIRST_FILE = "a managed task begins a file only if the position is the one that it goes by"
SAME_AREA = "a managed task commits at Salesforce and lands only from the position that it goes by"
HOLDS_PIN = "a batch that an event pinned begins with the file that holds this event"

STAND_BACK = "a wait does not listen while another process works on the batch"
LOOK_AGAIN = "a wait reads again what is staged once it has its claim"
ANCHOR_BEHIND_FILES = "an anchor passes nothing that is in no closed file"
ANCHOR_AFTER = "an anchor names the file that it follows, and counts only behind that one"

# Rules that the package does not follow (test_proposed.py).
ONE_EPOCH = (
    "the id of a first epoch follows from the consumer and topic, so all first runs share it"
)
EPOCHS = "a landing stops those of other epochs before it compares itself with what has landed"
SETTLE = "a record is read back only after each write that was under way has arrived"
SWAP = "the store replaces a record only if it still is the one that the task goes by"
NOT_YET = frozenset({ONE_EPOCH, EPOCHS, SETTLE, SWAP})
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
        UNCHANGED,
        READ_BACK,
        READ_AGAIN,
        ELSEWHERE,
        RESUME_EMPTY,
        CARRY_END,
        CARRY_EMPTY,
        NO_PLACE,
        TAKE_AREA,
        OWED,
        LAST_PLACE,
        FIRST_FILE,
        SAME_AREA,
        HOLDS_PIN,
        STAND_BACK,
        LOOK_AGAIN,
        ANCHOR_BEHIND_FILES,
        ANCHOR_AFTER,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Without an argument: two hosts that share one staging area, and the rules of the package.

    :param one_host: attempts see each other's processes; otherwise only the heartbeat tells.
    :param one_at_a_time: `max_active_runs=1`.
    :param exclusive_create: of two processes that create a file at once, the store lets one win.
    :param ends_early: a fetch may end after any event, by time or by an error.
    :param carries: the bus delivers an event beyond a full batch.
    :param managed: Salesforce keeps the place.
    :param max_events: of a batch.
    :param initial_replay: replay point of the first run; of a managed subscription, its default.
    :param replay_fallback: choice for a replay id that has left the bus.
    :param keep_batches: batches that sweeping leaves.
    :param breaks: rules that are left out; further ones show that breaking them is noticed.
    """

    one_host: bool = False
    one_at_a_time: bool = False
    exclusive_create: bool = True
    ends_early: bool = False
    carries: bool = False
    managed: bool = False
    max_events: int = 2
    initial_replay: str = "earliest"
    replay_fallback: str = "fail"
    keep_batches: int = 10
    breaks: frozenset[str] = NOT_YET

    def __post_init__(self) -> None:
        if unknown := self.breaks - RULES - NOT_YET:
            raise ValueError(f"no such rule: {', '.join(sorted(unknown))}")

    def keeps(self, rule: str) -> bool:
        return rule not in self.breaks

    def without(self, *rules: str) -> Rules:
        """The same surroundings with more rules left out."""
        return replace(self, breaks=self.breaks.union(rules))

    def including(self, *rules: str) -> Rules:
        """The same surroundings with rules that the package does not follow."""
        return replace(self, breaks=self.breaks.difference(rules))
