"""The staging area: its id, its topics, their epochs and batches; `layout` names the files."""

from __future__ import annotations

import json
import logging
import re
import secrets
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.staging import keepalive_point, layout, leases
from airflow_provider_sfevents.staging.batch_folder import BatchFolder
from airflow_provider_sfevents.staging.sidecar_files import (
    Forgotten,
    Origin,
    Swept,
    in_order,
)
from airflow_provider_sfevents.staging.storage import durable_files
from airflow_provider_sfevents.staging.sweeping import (
    KEEP_BATCHES,
    NO_TIME,
    BatchState,
    is_young,
    to_sweep,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from upath import UPath

    from airflow_provider_sfevents.staging.keepalive_point import KeepalivePoint
    from airflow_provider_sfevents.staging.lease_holder import LeaseHolder
    from airflow_provider_sfevents.staging.manifest import Manifest

log = logging.getLogger(__name__)

_NO_EPOCHS = frozenset({layout.KEEPALIVE_POINT, layout.FORGOTTEN, layout.BEGINNING})

_BATCH_NUMBER = re.compile(r"\d{10,}")
_NOT_YET = "~"  # sorts after every time


class StagingArea:
    """Staging area of one Airflow, or of several that share it.

    :param root: any folder or object store prefix.
    """

    def __init__(self, root: UPath) -> None:
        self.root = root

    def staging_id(self) -> str:
        """Return the random id of this staging area; its first user writes it.

        A position records it: an area with another id (a pod's empty disk, another bucket) does not
        hold what was staged for that position.

        :raises StagingError: it can be neither read nor written.
        """
        place = self.root / layout.AREA
        data = durable_files.read(place)
        if data is None:
            durable_files.create_once(
                place, json.dumps({"staging_id": secrets.token_hex(8)}).encode()
            )
            data = durable_files.read(place)
        try:
            return str(json.loads(data or b"")["staging_id"])
        except (ValueError, KeyError, TypeError) as error:
            raise StagingError(
                f"{place} holds no id of a staging area: {error}. Remove it; the area then counts "
                "as a new one, and its unfinished batches are fetched again."
            ) from error

    def existing_id(self) -> str:
        """Return the id that `staging_id` has written; empty if there is none. Writes nothing.

        :raises StagingError: it cannot be read.
        """
        return self.staging_id() if durable_files.read(self.root / layout.AREA) else ""

    def known_id(self) -> str:
        """Return `staging_id`; empty if there is none and it cannot be written.

        A wait works without it.
        """
        try:
            return self.staging_id()
        except StagingError as error:
            log.debug("The staging area has no id: %s", error)
            return ""

    def subscriber(self, org_id: str, subscription: str, consumer: str) -> tuple[str, str]:
        """Record a managed subscription's consumer, unless one is recorded already.

        :return: the recorded consumer, and the file that names it.
        :raises StagingError: it can be neither written nor read.
        """
        place = self.root / layout.managed_name(org_id, subscription)
        if durable_files.create_once(place, json.dumps({"consumer": consumer}).encode()):
            return consumer, str(place)
        try:
            return str(json.loads(durable_files.read(place) or b"")["consumer"]), str(place)
        except (ValueError, KeyError, TypeError) as error:
            raise StagingError(f"{place} names no consumer: {error}. Remove it.") from error

    def topic(self, org_id: str, consumer: str, topic: str) -> TopicFolder:
        return TopicFolder(self.root / layout.topic_folder(org_id, consumer, topic))


class TopicFolder:
    """Folder of one consumer's batches of one topic of one org."""

    def __init__(self, folder: UPath) -> None:
        self.folder = folder

    def batch(self, epoch: str, batch_number: int) -> BatchFolder:
        return BatchFolder(
            self.folder / layout.batch_folder(epoch, batch_number),
            layout.batch_id(epoch, batch_number),
        )

    def take_beginning_lease(self, holder: LeaseHolder) -> leases.Lease:
        """Take the lease that allows one task at a time to begin a position.

        :raises LeaseHeldError: another task holds it.
        """
        return leases.take(self.folder / layout.BEGINNING, holder)

    def begin_once(self, position: str) -> str:
        """Write the record of the first epoch, unless there is one; return the record that counts.

        A task that wrote an earlier record may have died before the record was in the store.

        :param position: the position's record.
        """
        place = self._beginning()
        if durable_files.create_once(place, position.encode()):
            return position
        return (durable_files.read(place) or position.encode()).decode(errors="replace")

    def begin_anew(self, position: str) -> None:
        """Replace a first record that cannot be parsed; only for the lease holder."""
        durable_files.replace(self._beginning(), position.encode())

    def _beginning(self) -> UPath:
        forgotten = self.forgotten()  # each `forget` changes the name: earlier records are void
        return self.folder / layout.BEGINNING / f"position{forgotten.id if forgotten else ''}.json"

    def read_keepalive_point(self) -> KeepalivePoint | None:
        return keepalive_point.read(self.folder)

    def write_keepalive_point(self, point: KeepalivePoint) -> None:
        keepalive_point.write(self.folder, point)

    def forget(
        self, at: str, epoch: str = "", last_event_at: str = "", batch_number: int = 0
    ) -> None:
        """Record that a user forgot the position: the epochs that are known by now no longer count.

        :param at: ISO-8601, UTC.
        :param epoch: of the forgotten position, which may have left no file here.
        :param last_event_at: of the forgotten position, as is `batch_number`.
        """
        before = self.forgotten()
        known = [*(before.epochs if before else []), *self.epochs_in_order(), epoch]
        newest_last = list(dict.fromkeys(reversed([one for one in known if one])))[::-1]
        mark = Forgotten(
            id=secrets.token_hex(6),
            at=at,
            epochs=newest_last,
            last_event_at=last_event_at,
            batch_number=batch_number,
        )
        durable_files.replace(self.folder / layout.FORGOTTEN, mark.to_json().encode())

    def forgotten(self) -> Forgotten | None:
        """Read the last time a user forgot the position; None: never.

        :raises StagingError: the record cannot be parsed.
        """
        data = durable_files.read(self.folder / layout.FORGOTTEN)
        try:
            return Forgotten.from_json(data.decode()) if data is not None else None
        except ValueError as error:
            raise StagingError(
                f"{self.folder / layout.FORGOTTEN} does not say which epochs were forgotten: "
                f"{error}. Remove it; or write it again with `airflow sfevents position forget`."
            ) from error

    def after_forgetting(self, epoch: str) -> bool:
        """Return whether an epoch counts: it is not one of those that were forgotten."""
        forgotten = self.forgotten()
        return forgotten is None or epoch not in forgotten.epochs

    def epochs(self) -> list[str]:
        """Return the epochs that left a file here, in no order."""
        return [
            name
            for name in durable_files.names(self.folder)
            if name not in _NO_EPOCHS and not name.startswith(".")
        ]

    def origins(self) -> list[Origin]:
        """Read the origins of the epochs, oldest first (`in_order`).

        :raises StagingError: one cannot be parsed; the order of epochs, and with it the newest
            landed batch, would be a guess.
        """
        return in_order(filter(None, map(self.origin, self.epochs())))

    def origin(self, epoch: str) -> Origin | None:
        """Read the origin of an epoch; None: it has none.

        :raises StagingError: it cannot be parsed.
        """
        data = durable_files.read(self._origin(epoch))
        return None if data is None else self._parse_origin(epoch, data)

    def ancestors(self, epoch: str) -> frozenset[str]:
        """Return the epochs that this one followed, directly or not, as far as origins are here."""
        previous = {origin.epoch: origin.previous for origin in self.origins()}
        found: set[str] = set()
        while (epoch := previous.get(epoch, "")) and epoch not in found:
            found.add(epoch)
        return frozenset(found)

    def write_origin(self, origin: Origin) -> None:
        """Record the origin of an epoch, once; a second call for the same epoch changes nothing."""
        durable_files.create_once(self._origin(origin.epoch), origin.to_json().encode())

    def batch_numbers(self, epoch: str) -> list[int]:
        """Return the numbers of the batches that have a folder, ascending."""
        return sorted(
            int(name)
            for name in durable_files.names(self.folder / epoch)
            if _BATCH_NUMBER.fullmatch(name)
        )

    def manifests(self) -> Iterator[Manifest]:
        """Read the manifests of the batches that are kept, newest first, one by one."""
        for epoch in reversed(self.epochs_in_order()):
            for batch_number in reversed(self.batch_numbers(epoch)):
                manifest = self.batch(epoch, batch_number).sound_manifest()
                if manifest is not None:
                    yield manifest

    def newest_receipt(self) -> tuple[str, int] | None:
        """Find the newest landed batch of all epochs; None: no batch ever landed here.

        Epochs count in their order, not by the time of landing: a cleared old run lands an old
        batch again.

        :return: its epoch and batch number.
        """
        for epoch in reversed(self.epochs_in_order()):
            for batch_number in self._newest_landed(epoch):
                return epoch, batch_number
        return None

    def _newest_landed(self, epoch: str) -> list[int]:
        for batch_number in reversed(self.batch_numbers(epoch)):
            if layout.RECEIPT in durable_files.names(self.batch(epoch, batch_number).folder):
                return [batch_number]
        return []

    def sweep(
        self,
        keep_batches: int = KEEP_BATCHES,
        epoch: str = "",
        *,
        keep_for: timedelta = NO_TIME,
        now: datetime | None = None,
    ) -> list[str]:
        """Remove old batches (`sweeping.to_sweep` selects them) and return their ids.

        A batch that cannot be removed now is removed next time.

        :param keep_batches: number of the newest committed batches that are kept in any case.
        :param epoch: of the position; it counts as the newest epoch, whatever the order here.
        :param keep_for: time after its landing for which a batch is kept in any case.
        :param now: default: this machine's time.
        :raises ValueError: `keep_batches` is negative.
        """
        if keep_batches < 0:
            raise ValueError(f"keep_batches must be 0 or more, not {keep_batches}")
        epochs = sorted(self.epochs_in_order(), key=lambda one: one == epoch)
        for folder in (self.folder, *(self.folder / epoch for epoch in epochs)):
            durable_files.remove_leftovers(folder)
            durable_files.remove_leftovers(folder / layout.HISTORY)
        batches = [
            (epoch, batch_number) for epoch in epochs for batch_number in self.batch_numbers(epoch)
        ]
        surplus = batches[: max(0, len(batches) - keep_batches)]
        old = list(self._old(surplus, keep_for, now or datetime.now(UTC)))
        newest = self.newest_receipt() if old else None
        if newest in batches:
            del old[max(0, batches.index(newest) + 1 - keep_batches) :]
        sweepable = to_sweep(old, newest, epochs[-1]) if old else []
        self._record_swept(sweepable)
        return [
            swept for state in sweepable for swept in self._remove(state.epoch, state.batch_number)
        ]

    def _old(
        self, batches: Iterable[tuple[str, int]], keep_for: timedelta, now: datetime
    ) -> Iterator[BatchState]:
        """Yield the batches that need not be kept for their age, oldest first.

        The batches after the first one that has landed too recently are not looked at.
        """
        for at in batches:
            state = self._state(*at)
            if keep_for and state.landed:
                receipt = self.batch(*at).read_receipt()
                if receipt is not None and is_young(receipt.written_at, keep_for, now):
                    return
            yield state

    def _record_swept(self, sweepable: Iterable[BatchState]) -> None:
        """Record which batches are swept, before they are: a reader must not take them for none."""
        highest: dict[str, int] = {}
        for state in sweepable:
            highest[state.epoch] = max(highest.get(state.epoch, 0), state.batch_number)
        for epoch, batch_number in highest.items():
            place = self.folder / epoch / layout.SWEPT
            if batch_number > self._swept(place):
                durable_files.replace(place, Swept(batch_number=batch_number).to_json().encode())

    def _swept(self, place: UPath) -> int:
        """Read the highest number that was swept; a record that cannot be parsed counts as none."""
        data = durable_files.read(place)
        try:
            return Swept.from_json(data.decode()).batch_number if data is not None else 0
        except ValueError:
            return 0

    def epochs_in_order(self) -> list[str]:
        """Return the epochs, oldest first, including those without an origin."""
        origins = self.origins()
        known = {origin.epoch for origin in origins}
        others = [
            Origin(epoch=epoch, previous="", created_at=self._seen_at(epoch), position="")
            for epoch in self.epochs()
            if epoch not in known
        ]
        return [origin.epoch for origin in in_order([*origins, *others])]

    def _seen_at(self, epoch: str) -> str:
        """Return the time at which the oldest batch of an epoch without an origin was staged.

        An epoch of which nothing is staged yet comes last: a first run at `latest` writes the
        origin once it knows its replay id.
        """
        batch_numbers = self.batch_numbers(epoch)
        manifests = (
            self.batch(epoch, batch_number).sound_manifest() for batch_number in batch_numbers
        )
        staged = next((one.created_at for one in manifests if one is not None), _NOT_YET)
        return staged if batch_numbers else ""

    def _remove(self, epoch: str, batch_number: int) -> list[str]:
        batch = self.batch(epoch, batch_number)
        try:
            batch.remove()
        except StagingError as error:
            log.warning("Old batch %s could not be removed: %s", batch.folder, error)
            return []
        return [batch.batch_id]

    def _state(self, epoch: str, batch_number: int) -> BatchState:
        folder = self.batch(epoch, batch_number).folder
        there = durable_files.names(folder)
        staged, landed = layout.MANIFEST in there, layout.RECEIPT in there
        swept = 0 if staged or landed else self._swept(self.folder / epoch / layout.SWEPT)
        return BatchState(
            epoch=epoch,
            batch_number=batch_number,
            staged=staged,
            landed=landed,
            half_swept=batch_number <= swept,
            held=leases.may_be_held(folder),
        )

    def _origin(self, epoch: str) -> UPath:
        return self.folder / epoch / layout.ORIGIN

    def _parse_origin(self, epoch: str, data: bytes) -> Origin:
        try:
            origin = Origin.from_json(data.decode())
        except ValueError as error:
            raise StagingError(
                f"{self._origin(epoch)} is no origin of an epoch: {error}. Restore it; or, if no "
                f"batch of that epoch is to be landed any more, remove {self.folder / epoch}."
            ) from error
        return origin
