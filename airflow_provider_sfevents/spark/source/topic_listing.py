"""The batches of a topic as its folder shows them: one listing, and the epochs' small files."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ConfigurationError, StagingError
from airflow_provider_sfevents.spark.source.offsets import StagedEpoch, StagedTopic
from airflow_provider_sfevents.spark.stores.unreadable_files import FileGoneError
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.manifest import Manifest
from airflow_provider_sfevents.staging.sidecar_files import Origin, Swept, in_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow_provider_sfevents.spark.source.source_options import SourceOptions
    from airflow_provider_sfevents.spark.source.staged_files import StagedFiles

_FILE = re.compile(
    rf"(?P<epoch>[^/]+)/(?:(?P<batch>\d{{10,}})/)?(?P<name>{re.escape(layout.ORIGIN)}"
    rf"|{re.escape(layout.MANIFEST)}|{re.escape(layout.RECEIPT)})"
)
_NOT_YET = "~"  # sorts after every time


@dataclass(slots=True)
class EpochFiles:
    """Files of one epoch.

    :param has_origin: the position's beginning is recorded.
    :param staged: numbers of the batches with a manifest.
    :param landed: numbers of the batches with a receipt.
    """

    has_origin: bool = False
    staged: set[int] = field(default_factory=set)
    landed: set[int] = field(default_factory=set)


def read_topic(files: StagedFiles, options: SourceOptions) -> StagedTopic:
    """Read the state of a topic's folder.

    A batch counts with its manifest, which is written last.

    :raises ConfigurationError: the path is no topic's folder of a staging area.
    :raises StagingError: a file cannot be read.
    """
    staging_id = _staging_id(files, options)
    found = sorted_files(files.walk(options.folder))
    # Read after the listing, listed or not: a batch that sweeping has just removed is then known.
    texts = files.read_texts(
        f"{options.folder}/{epoch}/{name}"
        for epoch in found
        for name in (layout.ORIGIN, layout.SWEPT)
    )
    origins = {
        epoch: _origin(files, options.folder, epoch, one, texts) for epoch, one in found.items()
    }
    ordered = in_order(origins.values())
    known = set(origins)
    roots = [one.epoch for one in ordered if one.previous not in known and found[one.epoch].staged]
    return StagedTopic(
        staging_id=staging_id,
        folder=options.folder,
        epochs=tuple(_epoch(options.folder, one.epoch, found[one.epoch], texts) for one in ordered),
        unordered=tuple(roots) if len(roots) > 1 else (),
    )


def sorted_files(paths: Iterable[str]) -> dict[str, EpochFiles]:
    """Group the files of a topic's folder by epoch; others are left out."""
    found: dict[str, EpochFiles] = defaultdict(EpochFiles)
    for path in paths:
        match = _FILE.fullmatch(path)
        if match is None:
            continue
        epoch, batch, name = match["epoch"], match["batch"], match["name"]
        if batch is None:
            found[epoch].has_origin = True
        elif name == layout.MANIFEST:
            found[epoch].staged.add(int(batch))
        elif name == layout.RECEIPT:
            found[epoch].landed.add(int(batch))
    return {epoch: one for epoch, one in found.items() if one.staged or one.has_origin}


def manifest_url(folder: str, epoch: str, batch_number: int) -> str:
    return f"{folder}/{layout.batch_folder(epoch, batch_number)}/{layout.MANIFEST}"


def _staging_id(files: StagedFiles, options: SourceOptions) -> str:
    try:
        text = files.read_text(options.area)
    except FileGoneError:
        raise ConfigurationError(
            f"There is no staging area around {options.folder}: {options.area} is missing. Give "
            "`path` as <staging>/<org>/<consumer>/<topic>, or the staging area's root with the "
            "options org_id, consumer and topic; and check that the driver and the executors "
            "reach it."
        ) from None
    try:
        return str(json.loads(text)["staging_id"])
    except (ValueError, KeyError, TypeError) as error:
        raise StagingError(
            f"{options.area} holds no id of a staging area: {error}. Remove it; the next run of "
            "Airflow writes it, and queries then need a new checkpoint."
        ) from error


def _origin(
    files: StagedFiles, folder: str, epoch: str, found: EpochFiles, texts: Mapping[str, str]
) -> Origin:
    """Origin of an epoch; one without it, of a position written by hand, has no previous one."""
    url = f"{folder}/{epoch}/{layout.ORIGIN}"
    if url not in texts:
        manifest = manifest_url(folder, epoch, min(found.staged)) if found.staged else ""
        text = files.read_texts([manifest] if manifest else []).get(manifest)
        at = Manifest.from_json(text, manifest).created_at if text is not None else _NOT_YET
        return Origin(epoch=epoch, previous="", created_at=at, position="")
    try:
        return Origin.from_json(texts[url])
    except ValueError as error:
        raise StagingError(
            f"{url} is no origin of an epoch: {error}. Restore it; or, if no batch of that epoch "
            f"is to be read, remove {folder}/{epoch}."
        ) from error


def _epoch(folder: str, epoch: str, found: EpochFiles, texts: Mapping[str, str]) -> StagedEpoch:
    return StagedEpoch(
        name=epoch,
        first=1 if found.has_origin else min(found.staged, default=1),
        staged=frozenset(found.staged),
        landed=frozenset(found.landed),
        swept=_swept(f"{folder}/{epoch}/{layout.SWEPT}", texts),
    )


def _swept(url: str, texts: Mapping[str, str]) -> int:
    if url not in texts:
        return 0
    try:
        return Swept.from_json(texts[url]).batch_number
    except ValueError as error:
        raise StagingError(
            f"{url} does not say which batches were swept: {error}. Remove it, and start queries "
            "that read this epoch with a new checkpoint."
        ) from error
