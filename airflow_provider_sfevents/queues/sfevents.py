"""Message queue of Airflow: `MessageQueueTrigger(scheme="sfevents", topic=..., consumer=...)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowOptionalProviderFeatureException
from typing_extensions import override

from airflow_provider_sfevents.triggers.sfevents import SfEventsWatchTrigger

try:
    from airflow.providers.common.messaging.providers.base_provider import BaseMessageQueueProvider
except ImportError as error:
    raise AirflowOptionalProviderFeatureException(
        "Message queues need another package: pip install 'airflow-provider-sfevents[messaging]'."
    ) from error

if TYPE_CHECKING:
    from airflow.triggers.base import BaseEventTrigger


class SfEventsMessageQueueProvider(BaseMessageQueueProvider):
    """Maps the scheme `sfevents` to `SfEventsWatchTrigger`, with the same arguments."""

    scheme = "sfevents"

    @override
    def trigger_class(self) -> type[BaseEventTrigger]:
        return SfEventsWatchTrigger
