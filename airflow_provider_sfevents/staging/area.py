"""The staging area as a place: its topics, their epochs, their batches. What lies where is `layout`'s; here it is read and written."""

from __future__ import annotations

import json
import logging
import re
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.staging import claims, durable, layout
from airflow_provider_sfevents.staging.batch_folder import BatchFolder
from airflow_provider_sfevents.staging.marks import Anchor, Forgotten, Origin
from airflow_provider_sfevents.staging.sweeping import KEEP_BATCHES, BatchState, to_sweep

if TYPE_CHECKING:
    from collections.abc import Iterator

    from upath import UPath

    from airflow_provider_sfevents.staging.holders import Holder
    from airflow_provider_sfevents.staging.manifest import Manifest

log = logging.getLogger(__name__)

_NO_EPOCHS = frozenset({layout.ANCHOR, layout.FORGOTTEN, layout.BEGINNING})

_SEQUENCE = re.compile(r"\d{10,}")
_NOT_YET = "~"  # sorts after every time


class StagingArea:
    """All that is staged by this Airflow, or by several that share it.

    :param root: any folder or object store prefix.
    """

    def __init__(self, root: UPath) -> None:
        self.root = root

    def subscriber(self, org_id: str, subscription: str, consumer: str) -> tuple[str, str]:
        """Say which consumer a managed subscription delivers to, unless that was said before; who it is, and where that is written.

        :raises StagingError: it can be neither written nor read.
        """
        place = self.root / layout.managed_name(org_id, subscription)
        if durable.create_once(place, json.dumps({"consumer": consumer}).encode()):
            return consumer, str(place)
        try:
            return str(json.loads(durable.read(place) or b"")["consumer"]), str(place)
        except (ValueError, KeyError, TypeError) as error:
            raise StagingError(
                f"{place} does not say which consumer it is for: {error}. Remove it."
            ) from error

    def topic(self, org_id: str, consumer: str, topic: str) -> TopicFolder:
        return TopicFolder(self.root / layout.topic_folder(org_id, consumer, topic))


class TopicFolder:
    """What one consumer has staged of one topic of one org."""

    def __init__(self, folder: UPath) -> None:
        self.folder = folder

    def batch(self, epoch: str, sequence: int) -> BatchFolder:
        return BatchFolder(
            self.folder / layout.batch_folder(epoch, sequence), layout.batch_id(epoch, sequence)
        )

    def claim_beginning(self, holder: Holder) -> claims.Claim:
        """Be the only one who begins a position.

        :raises BatchClaimed: another is at it.
        """
        return claims.take(self.folder / layout.BEGINNING, holder)

    def begin_once(self, position: str) -> str:
        """Say what the first epoch will be; returns what counts: this, or what one said who died before it was in the store.

        :param position: the position's record.
        """
        place = self._beginning()
        if durable.create_once(place, position.encode()):
            return position
        return (durable.read(place) or position.encode()).decode(errors="replace")

    def begin_anew(self, position: str) -> None:
        """Put another in the place of one that cannot be understood; for who has the claim."""
        durable.replace(self._beginning(), position.encode())

    def _beginning(self) -> UPath:
        stamp = re.sub(
            r"\W", "", self.forgotten_at()
        )  # what began before the position was forgotten is over
        return self.folder / layout.BEGINNING / f"position{stamp}.json"

    def read_anchor(self) -> Anchor | None:
        """The last keepalive's replay id. One that cannot be understood is no anchor: it only saves a topic from getting old."""
        data = durable.read(self.folder / layout.ANCHOR)
        try:
            return Anchor.from_json(data.decode()) if data is not None else None
        except ValueError as error:
            log.warning(
                "%s is not an anchor and is left out: %s", self.folder / layout.ANCHOR, error
            )
            return None

    def write_anchor(self, anchor: Anchor) -> None:
        durable.replace(self.folder / layout.ANCHOR, anchor.to_json().encode())

    def forget(self, at: str) -> None:
        """Say that the position is gone on purpose; epochs begun before `at` no longer count (`after_forgetting`)."""
        durable.replace(self.folder / layout.FORGOTTEN, Forgotten(at=at).to_json().encode())

    def forgotten_at(self) -> str:
        """When the position was last forgotten by hand; empty where it never was.

        :raises StagingError: the mark cannot be understood.
        """
        data = durable.read(self.folder / layout.FORGOTTEN)
        try:
            return Forgotten.from_json(data.decode()).at if data is not None else ""
        except ValueError as error:
            raise StagingError(
                f"{self.folder / layout.FORGOTTEN} does not say when the position was forgotten: {error}. Remove it; or write it anew "
                "by `airflow sfevents position forget`."
            ) from error

    def after_forgetting(self, epoch: str) -> bool:
        """Whether an epoch began after the position was last forgotten, so that what it left still counts."""
        forgotten = self.forgotten_at()
        began = {origin.epoch: origin.created_at for origin in self.origins()} if forgotten else {}
        return not forgotten or began.get(epoch, "") > forgotten

    def epochs(self) -> list[str]:
        """Epochs that left something here, in no order."""
        return [
            name
            for name in durable.names(self.folder)
            if name not in _NO_EPOCHS and not name.startswith(".")
        ]

    def origins(self) -> list[Origin]:
        """How each epoch began, oldest first.

        :raises StagingError: one cannot be understood; guessing at the order of epochs would be guessing at what has landed.
        """
        written = {epoch: durable.read(self._origin(epoch)) for epoch in self.epochs()}
        found = [
            self._parse_origin(epoch, data) for epoch, data in written.items() if data is not None
        ]
        return sorted(found, key=lambda origin: (origin.created_at, origin.epoch))

    def write_origin(self, origin: Origin) -> None:
        """Say once how an epoch began; a second time for the same epoch changes nothing."""
        durable.create_once(self._origin(origin.epoch), origin.to_json().encode())

    def sequences(self, epoch: str) -> list[int]:
        """Sequences of the batches that have a folder, ascending."""
        return sorted(
            int(name) for name in durable.names(self.folder / epoch) if _SEQUENCE.fullmatch(name)
        )

    def manifests(self) -> Iterator[Manifest]:
        """Manifests of the batches that are kept, newest first; read one by one."""
        for epoch in reversed(self.epochs_in_order()):
            for sequence in reversed(self.sequences(epoch)):
                manifest = self.batch(epoch, sequence).read_manifest()
                if manifest is not None:
                    yield manifest

    def newest_receipt(self) -> tuple[str, int] | None:
        """Epoch and sequence of the landed batch that is newest over all epochs; `None`: nothing of this topic ever landed here.

        Lists folders, newest first. Epochs are put in order by when they began, not by when they landed: an old run that is cleared
        lands an old batch again.
        """
        newest = [
            (epoch, sequence) for epoch in self.epochs() for sequence in self._newest_landed(epoch)
        ]
        if len(newest) < 2:
            return newest[0] if newest else None
        created = {origin.epoch: origin.created_at for origin in self.origins()}
        return max(newest, key=lambda at: created.get(at[0]) or self._landed_at(*at))

    def _newest_landed(self, epoch: str) -> list[int]:
        for sequence in reversed(self.sequences(epoch)):
            if layout.RECEIPT in durable.names(self.batch(epoch, sequence).folder):
                return [sequence]
        return []

    def _landed_at(self, epoch: str, sequence: int) -> str:
        receipt = self.batch(epoch, sequence).read_receipt()
        return receipt.written_at if receipt else ""

    def sweep(self, keep_batches: int = KEEP_BATCHES) -> list[str]:
        """Remove old batches (`sweeping.to_sweep` decides); their ids. What cannot be removed now is removed next time.

        :raises ValueError: when `keep_batches` is negative.
        """
        if keep_batches < 0:
            raise ValueError(f"keep_batches must be 0 or more, not {keep_batches}")
        epochs = self.epochs_in_order()
        for folder in (self.folder, *(self.folder / epoch for epoch in epochs)):
            durable.remove_leftovers(folder)
        batches = [(epoch, sequence) for epoch in epochs for sequence in self.sequences(epoch)]
        old = [self._state(*at) for at in batches[: max(0, len(batches) - keep_batches)]]
        sweepable = to_sweep(old, self.newest_receipt(), epochs[-1]) if old else []
        return [swept for state in sweepable for swept in self._remove(state.epoch, state.sequence)]

    def epochs_in_order(self) -> list[str]:
        """Epochs by when they began, oldest first."""
        created = {origin.epoch: origin.created_at for origin in self.origins()}
        return sorted(
            self.epochs(), key=lambda epoch: (created.get(epoch) or self._seen_at(epoch), epoch)
        )

    def _seen_at(self, epoch: str) -> str:
        """For an epoch whose origin somebody removed: when its oldest batch was staged; one of which none is yet comes last."""
        sequences = self.sequences(epoch)
        manifests = (self.batch(epoch, sequence).read_manifest() for sequence in sequences)
        staged = next((one.created_at for one in manifests if one is not None), _NOT_YET)
        return staged if sequences else ""

    def _remove(self, epoch: str, sequence: int) -> list[str]:
        batch = self.batch(epoch, sequence)
        try:
            batch.remove()
        except StagingError as error:
            log.warning("Old batch %s could not be removed: %s", batch.folder, error)
            return []
        return [batch.batch_id]

    def _state(self, epoch: str, sequence: int) -> BatchState:
        folder = self.batch(epoch, sequence).folder
        there = durable.names(folder)
        return BatchState(
            epoch=epoch,
            sequence=sequence,
            staged=layout.MANIFEST in there,
            landed=layout.RECEIPT in there,
            held=claims.may_be_held(folder),
        )

    def _origin(self, epoch: str) -> UPath:
        return self.folder / epoch / layout.ORIGIN

    def _parse_origin(self, epoch: str, data: bytes) -> Origin:
        try:
            origin = Origin.from_json(data.decode())
        except ValueError as error:
            raise StagingError(
                f"{self._origin(epoch)} does not say how an epoch began: {error}. Restore it; or, if nothing of that epoch is "
                f"to be landed any more, remove {self.folder / epoch}."
            ) from error
        return origin
