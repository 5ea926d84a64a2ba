"""A job's part in the wait queue, as one pure machine: ``client_machine.step``."""

from yarnam.core.queue_client.client_machine import step
from yarnam.core.queue_client.client_state import (
    ClientLimits,
    QueueClient,
    QueuedJob,
    new_client,
    queued_job,
)

__all__ = ["ClientLimits", "QueueClient", "QueuedJob", "new_client", "queued_job", "step"]
