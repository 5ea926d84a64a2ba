"""Containers of earlier AM attempts: YARN has kept them and handed them over, and Skein does not
know them. Their ends are in the ResourceManager's responses; the interceptor in Skein's JVM
releases those that a file names.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from yarnam.adapters.skein import am_client
from yarnam.adapters.skein.response_log import CompletedContainer
from yarnam.adapters.skein.responses import Responses
from yarnam.core.model.actions import AdoptedTask
from yarnam.core.model.ids import AskId, ContainerId
from yarnam.errors.full_disks import in_words

log = logging.getLogger("yarnam.am")

REGISTERED_LIMIT_S = 10.0
"""Wait for the interceptor's note of the registration. Skein registers before it starts Python, so
the note is there; without it nothing can be adopted, and the job starts over."""
UNREPORTED_LIMIT_S = 5.0
"""Wait for the report of how a container ended that YARN has not handed over: it comes with one of
the first heartbeats, or never."""
_POLL_S = 0.1


class AdoptedContainers:
    """Not thread-safe."""

    def __init__(
        self,
        responses: Responses,
        releases: Path | None = None,
        *,
        now_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """``releases``: the file that the interceptor reads; ``None`` without one."""
        self._responses = responses
        self._releases = releases
        self._now_s = now_s
        self._sleep = sleep
        self._tasks: dict[AskId, AdoptedTask] = {}
        self._adopted_at_s = 0.0
        self._known: set[ContainerId] = set()
        """Those that were handed over, and are adopted or released by the gang."""
        self._released: dict[ContainerId, None] = {}

    def kept(self) -> Sequence[ContainerId]:
        """Those that YARN has handed over."""
        if self._responses.is_silent:
            return ()
        until_s = self._now_s() + REGISTERED_LIMIT_S
        while not self._responses.has_registered():
            if self._now_s() >= until_s:
                log.warning(
                    "the interceptor has not reported the registration within %.0f s: "
                    "no container of an earlier attempt is adopted",
                    REGISTERED_LIMIT_S,
                )
                return ()
            self._sleep(_POLL_S)
        self._known |= self._responses.kept
        return sorted(self._responses.kept)

    def __iter__(self) -> Iterator[AdoptedTask]:
        return iter(list(self._tasks.values()))

    def __len__(self) -> int:
        return len(self._tasks)

    def adopt(self, tasks: Iterable[AdoptedTask]) -> None:
        self._tasks = {task.ask: task for task in tasks}
        self._adopted_at_s = self._now_s()

    def release(self, asks: Iterable[AskId]) -> None:
        """Passes over asks without an adopted container."""
        tasks = [self._tasks.pop(ask) for ask in asks if ask in self._tasks]
        self.release_kept([task.container for task in tasks])

    def release_kept(self, containers: Collection[ContainerId]) -> None:
        """Also of containers that are gone: that changes nothing."""
        self._known |= set(containers)
        if not containers or self._releases is None:
            return
        self._released.update(dict.fromkeys(containers))
        written = self._releases.with_name(f"{self._releases.name}.new")
        try:
            written.write_text("".join(f"{one}\n" for one in self._released), encoding="ascii")
            written.replace(self._releases)
        except OSError as error:
            # Their agents get an order to leave as well.
            log.warning("containers are not released by YARN: %s", in_words(error, written))
            with suppress(OSError):
                written.unlink()

    def release_late(self) -> None:
        """Gives back what YARN hands over after the registration and nobody has adopted."""
        late = self._responses.kept - self._known
        if late:
            log.info("containers of an earlier attempt came late and are released: %d", len(late))
            self.release_kept(sorted(late))

    def ended(self) -> list[tuple[AskId, am_client.ContainerRow, CompletedContainer | None]]:
        """The containers that have ended since the last call; each is forgotten."""
        found = []
        for task in list(self._tasks.values()):
            completed = self._responses.completed(task.container)
            is_missing = task.container not in self._responses.kept
            waited_s = self._now_s() - self._adopted_at_s
            if completed is None and not (is_missing and waited_s >= UNREPORTED_LIMIT_S):
                continue
            del self._tasks[task.ask]
            found.append((task.ask, _row(task, completed), completed))
        return found


def _row(task: AdoptedTask, completed: CompletedContainer | None) -> am_client.ContainerRow:
    """As Skein would show the container."""
    key = am_client.ContainerKey(str(task.ask), 0)
    if completed is None:
        text = "YARN has not kept the container over the restart of the ApplicationMaster"
        return am_client.ContainerRow(key, am_client.FAILED, task.container, exit_message=text)
    state = am_client.FAILED if completed.exit_status else am_client.SUCCEEDED
    return am_client.ContainerRow(key, state, task.container, exit_message=completed.diagnostics)
