"""Skein's AM in memory: its books as ApplicationMaster.java keeps them, without YARN."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from yarnam.adapters.skein.am_client import (
    ACTIVE,
    FAILED,
    KILLED,
    REQUESTED,
    RUNNING,
    SUCCEEDED,
    ContainerKey,
    ContainerRow,
)
from yarnam.errors import Unavailable, YarnamError


@dataclass
class Refusal:
    """The next ``times`` calls of ``add`` fail with ``error``; ``happens_anyway``: the container
    is asked for, only the answer is lost."""

    error: YarnamError
    times: int = 1
    happens_anyway: bool = False


class FakeSkeinAm:
    """Thread-safe, as Skein is. ``is_gone``: nothing answers any more."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.rows: dict[ContainerKey, ContainerRow] = {}
        self.env: dict[ContainerKey, Mapping[str, str]] = {}
        self.kills: list[ContainerKey] = []
        self.rows_at_kill: list[tuple[ContainerKey, int]] = []
        """How many containers there had been at each kill."""
        self.progress: list[float] = []
        self.store: dict[str, bytes] = {}
        self.shut: tuple[str, str] | None = None
        self.is_gone = False
        self.ignores_kills = False
        self.refusal: Refusal | None = None
        self.polls = 0
        """How often its containers were asked for."""

    # ---- what the broker calls -----------------------------------------------------------

    def add(
        self, wanted: Sequence[tuple[str, Mapping[str, str]]]
    ) -> Sequence[ContainerKey | YarnamError]:
        return [self._add(service, env) for service, env in wanted]

    def containers(
        self, states: Iterable[str], services: Iterable[str] = ()
    ) -> Sequence[ContainerRow]:
        self.polls += 1
        self._answer()
        named, chosen = set(services), set(states)
        with self._lock:
            return [
                row
                for key, row in sorted(self.rows.items())
                if row.state in chosen and (not named or key.service in named)
            ]

    def kill(self, key: ContainerKey) -> None:
        self._answer()
        self.kills.append(key)
        self.rows_at_kill.append((key, len(self.rows)))
        if self.ignores_kills:
            raise Unavailable("killContainer: DEADLINE_EXCEEDED")
        with self._lock:
            if self.rows[key].state in ACTIVE:
                self._put(key, state=KILLED, exit_message="Killed by user request.")

    def write_key(self, key: str, value: bytes) -> None:
        self._answer()
        self.store[key] = value

    def set_progress(self, fraction: float) -> None:
        self._answer()
        self.progress.append(fraction)

    def shutdown(self, final_status: str, diagnostics: str) -> None:
        self._answer()
        self.shut = (final_status, diagnostics)

    def close(self) -> None:
        pass

    # ---- what a test does ----------------------------------------------------------------

    def run(self, key: ContainerKey, http_address: str = "n1:8042") -> None:
        """YARN has granted it: RUNNING in Skein's words."""
        with self._lock:
            if self.rows[key].state == REQUESTED:
                name = f"container_{key.service}_{key.instance}".replace("-", "_")
                self._put(key, state=RUNNING, container=name, http_address=http_address)

    def end(self, key: ContainerKey, message: str, state: str = FAILED) -> None:
        with self._lock:
            if self.rows[key].state in ACTIVE:
                self._put(key, state=state, exit_message=message)

    def succeed(self, key: ContainerKey) -> None:
        self.end(key, "Completed successfully.", SUCCEEDED)

    def start_early(self, service: str, count: int) -> None:
        """Instances declared at submit."""
        for _ in range(count):
            self._add(service, {})

    def of_service(self, service: str) -> list[ContainerKey]:
        with self._lock:
            return sorted(key for key in self.rows if key.service == service)

    # ---- books ---------------------------------------------------------------------------

    def _answer(self) -> None:
        if self.is_gone:
            raise Unavailable("UNAVAILABLE: Connection refused")

    def _add(self, service: str, env: Mapping[str, str]) -> ContainerKey | YarnamError:
        if self.is_gone:
            return Unavailable("UNAVAILABLE: Connection refused")
        refusal = self.refusal
        if refusal is not None and refusal.times > 0:
            refusal.times -= 1
            if not refusal.happens_anyway:
                return refusal.error
        else:
            refusal = None
        with self._lock:
            key = ContainerKey(service, sum(one.service == service for one in self.rows))
            self.rows[key] = ContainerRow(key, REQUESTED)
            self.env[key] = dict(env)
        return refusal.error if refusal is not None else key

    def _put(self, key: ContainerKey, **changes: str) -> None:
        self.rows[key] = replace(self.rows[key], **changes)  # type: ignore[arg-type]
