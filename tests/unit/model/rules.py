"""Environment of an exploration, and the package's rules, each of which can be left out."""

from __future__ import annotations

from dataclasses import dataclass, replace

LEASE = "a batch's lease is taken before an event is requested"
CHECK = "the lease is checked before an effect that cannot be undone"
REREAD = "the position is read again under the batch's lease"
RECEIPT = "nothing is committed without a receipt that adds up"
ADVANCE = "a position moves only over the batch that begins at it"
REPLACE = "landing replaces the rows of its batch"
IDENTITY = "landing leaves out what has landed in another batch"
KEEP_PARTS = "closed files of earlier attempts are kept"
FENCE = "an older form of a batch gives way to a newer one"
LEFT_OVERS = "left-overs of an earlier landing are removed"
BEGIN_ONCE = "a first run takes a lease on the beginning, and reads the position again under it"
ONE_BEGINNING = (
    "the first record of an epoch is written once in its area, for each task that takes over"
)
LIST_FIRST = "a landing looks for other attempts before and after it makes its own folder"
FIRST = "the form of a batch that has landed stays, and counts for each task that has another"
WORD = "a landing that fails records that it may have left files in the tables"

UNCHANGED = "a record is written only if the store still holds the record that the task read"
READ_BACK = "a record is read back before anything follows from it"
READ_AGAIN = "the position is read again before landing"
ELSEWHERE = "a position pinned to an event that is staged in another area is refused"
RESUME_EMPTY = "a keepalive goes into the position only if nothing of the batch is staged"
CARRY_END = "events beyond a batch are kept only if the manifest that counts ends before them"
CARRY_EMPTY = "events beyond a batch are kept only if nothing of the next batch is there"
NO_PLACE = "Salesforce's replay id is used only by an area that holds what was committed"
TAKE_AREA = "the position names the area before Salesforce keeps the end of its batch"
OWED = "a late commit to Salesforce is the end of the batch that the position is at"
LAST_PLACE = "Salesforce's replay id counts only if kept since the position names the area"
FIRST_FILE = "a managed task begins a file only if the position is the one that it read"
SAME_AREA = "a managed task commits to Salesforce and lands only from the position that it read"
HOLDS_PIN = "a batch that an event pinned begins with the file that holds this event"

STAND_BACK = "a wait does not listen while another process works on the batch"
LOOK_AGAIN = "a wait reads again what is staged under its lease"
KEEPALIVE_POINT_BEHIND_FILES = "a keepalive point follows no event that is in no closed file"
KEEPALIVE_POINT_AFTER = "a keepalive point names the file that it follows, and counts only after it"

# Rules that the package does not follow (test_proposed.py).
ONE_EPOCH = (
    "the id of a first epoch follows from the consumer and topic, so all first runs share it"
)
EPOCHS = "a landing stops those of other epochs before it compares itself with what has landed"
SETTLE = "a record is read back only after each write in progress has arrived"
SWAP = "the store replaces a record only if it still is the one that the task read"
NOT_YET = frozenset({ONE_EPOCH, EPOCHS, SETTLE, SWAP})
RULES = frozenset(
    {
        LEASE,
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
        KEEPALIVE_POINT_BEHIND_FILES,
        KEEPALIVE_POINT_AFTER,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Environment and rules; by default two hosts that share a staging area, and all package rules.

    :param one_host: attempts see each other's processes; otherwise they see only lease heartbeats.
    :param one_at_a_time: `max_active_runs=1`.
    :param exclusive_create: of two processes that create a file at once, the store lets one win.
    :param ends_early: a fetch may end after any event, by time or by an error.
    :param carries: the bus delivers an event beyond a full batch.
    :param managed: a managed subscription; Salesforce keeps the replay id.
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
        """The same environment with more rules left out."""
        return replace(self, breaks=self.breaks.union(rules))

    def including(self, *rules: str) -> Rules:
        """The same environment with rules that the package does not follow."""
        return replace(self, breaks=self.breaks.difference(rules))
