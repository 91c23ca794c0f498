"""Results of trials and soaks: JSON lines in a folder, and a report made from them."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter, defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.proof.points import crash_points
from tests.proof.world import PUBSUB

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.proof.soak import Soak
    from tests.proof.trial import Trial

FOLDER = "SFEVENTS_PROOF_FIGURES"
TRIALS, SOAKS = "trials.jsonl", "soaks.jsonl"
Line = dict[str, Any]


def folder() -> Path:
    """Folder of the results; an environment variable may name another one."""
    named = os.environ.get(FOLDER)
    found = Path(named) if named else Path(tempfile.gettempdir()) / f"sfevents-proof-{os.getuid()}"
    found.mkdir(parents=True, exist_ok=True)
    return found


def forget() -> None:
    """Delete the results of earlier runs."""
    for name in (TRIALS, SOAKS):
        (folder() / name).unlink(missing_ok=True)


def note_trial(trial: Trial) -> None:
    """Record the result of one trial."""
    point = asdict(trial.point)
    point |= {"victim": trial.point.victim.value, "front": trial.point.front.value}
    _note(TRIALS, {**asdict(trial), "point": point, "id": trial.point.id})


def note_soak(soak: Soak) -> None:
    """Record the result of a soak that has ended without a violation."""
    value = {
        "seed": soak.seed,
        "rounds": soak.rounds,
        "seconds": soak.seconds,
        "events": soak.published,
        "deliveries": soak.deliveries,
        "causes": soak.causes,
        "fronts": soak.fronts,
        "kills": soak.kills,
    }
    _note(SOAKS, value)


def report() -> tuple[list[str], bool]:
    """Lines of the report; True if every crash point has run and no trial broke a rule."""
    trials = {line["id"]: line for line in _read(TRIALS)}  # the last trial of a point counts
    soaks = list(_read(SOAKS))
    missing = [point.id for point in crash_points() if point.id not in trials]
    broken = [name for name, line in trials.items() if line["wrong"]]
    lines = [f"figures in {folder()}", ""]
    lines += [*_covered(trials.values(), len(missing)), "", *_survived(trials, broken, soaks), ""]
    lines += _paid([*trials.values(), *soaks])
    lines += _slowest(list(trials.values()))
    lines += ["", *(f"not gone through: {name}" for name in missing)] if missing else []
    return lines, bool(trials) and not missing and not broken


def _covered(trials: Iterable[Line], missing: int) -> list[str]:
    trials = list(trials)
    by_place: dict[str, set[str]] = defaultdict(set)
    for line in trials:
        by_place[_place(line["point"])].add(line["point"]["step"])
    victims = Counter(line["point"]["victim"] for line in trials)
    return [
        f"crash points covered   {len(trials)} of {len(trials) + missing}",
        *(f"  {place:<31} {len(steps)} steps" for place, steps in sorted(by_place.items())),
        f"  killed               {', '.join(f'{who} {n}' for who, n in victims.most_common())}",
    ]


def _place(point: Line) -> str:
    place = f"{point['store']}, {point['front'] or point['job']}"
    return place if point["transport"] == PUBSUB else f"{place}, {point['transport']}"


def _survived(trials: dict[str, Line], broken: list[str], soaks: list[Line]) -> list[str]:
    rounds = sum(line["rounds"] for line in soaks)
    kills = sum(line["kills"] for line in soaks)
    return [
        f"crash points survived  {len(trials) - len(broken)} with zero lost and zero doubled",
        *(f"  BROKEN: {name}" for name in broken),
        f"rounds survived        {rounds} with zero lost and zero doubled; {kills} kills, "
        f"seeds {', '.join(str(line['seed']) for line in soaks) or 'none'}",
    ]


def _paid(lines: list[Line]) -> list[str]:
    events = sum(line["events"] for line in lines)
    deliveries = sum(line["deliveries"] for line in lines)
    causes: Counter[str] = Counter()
    for line in lines:
        causes.update(line["causes"])
    per_event = deliveries / events if events else 0.0
    calm = [line for line in lines if not line["causes"]]
    without = sum(line["deliveries"] for line in calm) / (sum(line["events"] for line in calm) or 1)
    return [
        f"deliveries per event   {per_event:.3f} ({deliveries} for {events}); "
        f"{without:.3f} where nothing was in memory when it died",
        *(f"  {count:>5} more: {cause}" for cause, count in sorted(causes.items())),
        *_paid_by_front(lines),
    ]


def _paid_by_front(lines: list[Line]) -> list[str]:
    """Deliveries and extra deliveries by the kind of wait before the task that fetches."""
    paid: dict[str, Counter[str]] = defaultdict(Counter)
    for line in lines:
        for front, count in _fronts(line).items():
            paid[front].update(count)
    return [
        f"  {front or 'no wait before':<18} {count['deliveries'] / first:.3f} "
        f"({count['deliveries']} for {first})"
        for front, count in sorted(paid.items())
        if (first := count["deliveries"] - count["more"])
    ]


def _fronts(line: Line) -> dict[str, dict[str, int]]:
    if "point" not in line:
        return dict(line["fronts"])
    count = {"deliveries": line["deliveries"], "more": sum(line["causes"].values())}
    return {line["point"]["front"]: count}


def _slowest(lines: list[Line]) -> list[str]:
    slowest = max(lines, key=lambda line: float(line["recovery_seconds"]), default=None)
    if slowest is None:
        return []
    return [
        f"longest recovery       {slowest['recovery_seconds']:.1f} s from the kill to the commit "
        f"({slowest['id']})"
    ]


def _note(name: str, value: Line) -> None:
    with (folder() / name).open("a") as lines:
        lines.write(f"{json.dumps(value)}\n")


def _read(name: str) -> Iterator[Line]:
    path = folder() / name
    if path.exists():
        yield from map(json.loads, path.read_text().splitlines())
