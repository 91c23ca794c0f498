"""What the server says of itself by reflection, so that tools such as grpcurl work without the .proto."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.protobuf import descriptor_pool

from airflow_provider_sfevents.emulator.extras import require

if TYPE_CHECKING:
    from google.protobuf.descriptor import FileDescriptor
    from google.protobuf.descriptor_pool import DescriptorPool


class Symbols:
    """The descriptors of this process, methods among them: protobuf's own look-up does not know these by name."""

    def __init__(self, pool: DescriptorPool | None = None) -> None:
        self._pool = pool or descriptor_pool.Default()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    def FindFileContainingSymbol(self, symbol: str) -> FileDescriptor:  # noqa: N802 - protobuf's name for it
        """File in which a message, service or method is defined.

        :raises KeyError: when there is none.
        """
        try:
            return self._pool.FindFileContainingSymbol(symbol)
        except KeyError:
            service, _, method = symbol.rpartition(".")
            found = self._pool.FindServiceByName(service)
            if method not in found.methods_by_name:
                raise
            return found.file


def describe_on(server: Any, service: str) -> None:
    """Let a gRPC server describe this service, and the describing itself."""
    reflection = require("grpc_reflection.v1alpha.reflection")
    reflection.enable_server_reflection((service, reflection.SERVICE_NAME), server, Symbols())
