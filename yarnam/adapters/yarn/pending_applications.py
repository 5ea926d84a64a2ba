"""Who waits for GPUs, by the ResourceManager's own list: what is known without tickets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from yarnam._light_imports import on_first_use
from yarnam.adapters.yarn.rest_parse import YarnApplication
from yarnam.wire.protocol import APPLICATION_TAG

if TYPE_CHECKING:
    from yarnam.core.gang.elastic.sizing import WaitingJob

with on_first_use():
    from yarnam.core.gang.elastic import sizing

LIVING = ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING")


class Applications(Protocol):
    """The part of ``ResourceManager`` that this needs."""

    def applications(
        self, *, tags: Iterable[str], states: Iterable[str]
    ) -> Sequence[YarnApplication]: ...


class PendingApplications:
    """Other jobs of yarnam's that have no container but their ApplicationMaster's: they look for
    room, back off, or are queued. One that has just ended its tasks looks the same for a moment,
    which costs a poll. How many GPUs they want is not known here."""

    def __init__(self, rm: Applications, application: str) -> None:
        self._rm = rm
        self._application = application

    def __call__(self) -> tuple[WaitingJob, ...]:
        """At most 10 s. Raises Unavailable."""
        found = self._rm.applications(states=LIVING, tags=[APPLICATION_TAG])
        return tuple(
            sizing.WaitingJob(app.queue)
            for app in found
            if app.application != self._application and app.running_containers <= 1
        )
