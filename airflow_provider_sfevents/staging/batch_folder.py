"""One batch's folder: claims, files, schemas, manifest, receipt.

Airflow imports this in every process that parses a DAG, so Arrow is imported where it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.staging import claims, durable, layout
from airflow_provider_sfevents.staging.manifest import Manifest, Part, Receipt

if TYPE_CHECKING:
    from upath import UPath

    from airflow_provider_sfevents.staging.holders import Holder
    from airflow_provider_sfevents.staging.writer import Limits, PartWriter

_PART_PREFIX, _PART_SUFFIX = "part-", ".parquet"
_SCHEMA_SUFFIX = ".avsc"


class BatchFolder:
    """Where one batch is staged and its receipt lies. Nothing here is cached: others write there too."""

    def __init__(self, folder: UPath, batch_id: str) -> None:
        self.folder = folder
        self.batch_id = batch_id

    @property
    def url(self) -> str:
        """Where the batch is, for people and for XCom: absolute, without a connection in it."""
        return durable.url(self.folder)

    @property
    def manifest_url(self) -> str:
        return durable.url(self.folder / layout.MANIFEST)

    def claim(self, holder: Holder, patience: claims.Patience | None = None) -> claims.Claim:
        """Take the batch; blocks while another machine's unreleased claim is watched.

        :raises BatchClaimed: another holder is alive.
        """
        claim = claims.take(self.folder, holder, patience)
        self._remove_leftovers(claim.number)
        return claim

    def writer(
        self, claim: claims.Claim, start: str, first_ordinal: int, limits: Limits | None = None
    ) -> PartWriter:
        """A writer for this claim's attempt, going on after `start`."""
        from airflow_provider_sfevents.staging.writer import PartWriter

        return PartWriter(
            self.folder, claim=claim.number, start=start, first_ordinal=first_ordinal, limits=limits
        )

    def parts(self) -> list[Part]:
        """The complete files of all attempts; which of them make up the batch is for `chain` to say."""
        from airflow_provider_sfevents.staging.parts import read_part

        found = [read_part(self.folder, path) for path in self._part_paths()]
        return [part for part in found if part is not None]

    def verify(self, manifest: Manifest) -> None:
        """Read every file of a staged batch through, and compare.

        :raises StagingError: a file is missing or does not hold what the manifest says.
        """
        from airflow_provider_sfevents.staging.parts import verify

        for part in manifest.parts:
            verify(self.folder, part)

    def read_manifest(self) -> Manifest | None:
        data = durable.read(self.folder / layout.MANIFEST)
        return (
            Manifest.from_json(_text(data), str(self.folder / layout.MANIFEST))
            if data is not None
            else None
        )

    def create_manifest(self, manifest: Manifest) -> Manifest:
        """Say that the batch is staged; returns the manifest that counts: this one, or the one that was there before."""
        if durable.create_once(self.folder / layout.MANIFEST, manifest.to_json().encode()):
            return manifest
        existing = self.read_manifest()
        if existing is None:
            raise StagingError(
                f"{self.folder / layout.MANIFEST} was there a moment ago and is gone; somebody is emptying the staging area."
            )
        return existing

    def read_receipt(self) -> Receipt | None:
        data = durable.read(self.folder / layout.RECEIPT)
        return (
            Receipt.from_json(_text(data), str(self.folder / layout.RECEIPT))
            if data is not None
            else None
        )

    def write_schema(self, schema_id: str, schema: str) -> None:
        """Put a schema beside the events written with it; an id always means the same schema, so the first one stays."""
        durable.create_once(self.folder / layout.schema_name(schema_id), schema.encode())

    def schemas(self) -> set[str]:
        """Ids of the schemas that are there."""
        there = durable.names(self.folder / layout.SCHEMAS)
        return {
            unquote(name.removesuffix(_SCHEMA_SUFFIX))
            for name in there
            if name.endswith(_SCHEMA_SUFFIX) and not name.startswith(".")
        }

    def remove(self) -> None:
        durable.remove(self.folder)

    def _part_paths(self) -> list[str]:
        return [
            f"{layout.ATTEMPTS}/{attempt}/{name}"
            for attempt in durable.names(self.folder / layout.ATTEMPTS)
            for name in durable.names(self.folder / layout.ATTEMPTS / attempt)
            if name.startswith(_PART_PREFIX) and name.endswith(_PART_SUFFIX)
        ]

    def _remove_leftovers(self, claim: int) -> None:
        """Remove what earlier holders, gone now, had begun and not finished."""
        if claim == 1:
            return
        attempts = self.folder / layout.ATTEMPTS
        for folder in (
            self.folder,
            self.folder / layout.SCHEMAS,
            *(attempts / name for name in durable.names(attempts)),
        ):
            for name in filter(durable.is_leftover, durable.names(folder)):
                durable.remove(folder / name)


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
