"""A topic's folder of the model, for functions of the package that read one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from tests.unit.model.world import Area, Batch, manifest, receipt

if TYPE_CHECKING:
    from airflow_provider_sfevents.staging.area import TopicFolder
    from airflow_provider_sfevents.staging.keepalive_point import KeepalivePoint
    from airflow_provider_sfevents.staging.manifest import Manifest, Receipt
    from airflow_provider_sfevents.staging.sidecar_files import Origin


def folder(area: Area) -> TopicFolder:
    """An area of the model, with the reading methods of a `TopicFolder`."""
    return cast("TopicFolder", _Folder(area))


class _Folder(NamedTuple):
    area: Area

    def read_keepalive_point(self) -> KeepalivePoint | None:
        return self.area.keepalive_point

    def origins(self) -> list[Origin]:
        return list(self.area.origins)

    def batch_numbers(self, epoch: str) -> list[int]:
        return sorted(one.key[1] for one in self.area.batches if one.key[0] == epoch)

    def batch(self, epoch: str, batch_number: int) -> _BatchFolder:
        return _BatchFolder(self.area.batch((epoch, batch_number)))


class _BatchFolder(NamedTuple):
    batch: Batch

    def read_manifest(self) -> Manifest | None:
        return manifest(self.batch.manifest) if self.batch.manifest else None

    def read_receipt(self) -> Receipt | None:
        return receipt(self.batch.receipt) if self.batch.receipt else None

    def read_confirmed(self) -> str:
        return self.batch.confirmed
