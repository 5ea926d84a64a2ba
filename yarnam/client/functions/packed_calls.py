"""Several calls of a function in one job: each of its processes makes some, one after another."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from yarnam.client.functions.call_results import Returned, missing_call, raised
from yarnam.client.functions.function_job import FunctionJob
from yarnam.client.job import Job
from yarnam.client.site import Site
from yarnam.core.model.outcomes import Verdict


def one_after_another(
    function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]
) -> Callable[[], dict[int, tuple[bool, Any]]]:
    """A function that makes a process's share of the calls: for the position of each, whether it
    has returned, and its pickled value; else the class, text, traceback and pickle of what it has
    raised. A call that raises does not hinder the others."""

    # Pickled by value, so all that it needs is imported in it: where it runs there is no yarnam.
    def make_calls() -> dict[int, tuple[bool, Any]]:
        import os
        import pickle
        import sys
        import traceback

        import cloudpickle

        rank = int(os.environ.get("YARNAM_RANK", "0"))
        size = int(os.environ.get("YARNAM_WORLD_SIZE", "1"))
        left: dict[int, tuple[bool, Any]] = {}
        for position in range(rank, len(calls), size):
            try:
                left[position] = (True, cloudpickle.dumps(function(*calls[position])))
            except Exception as error:  # noqa: BLE001 - who made the call gets it
                text = traceback.format_exc()
                sys.stderr.write(f"call {position}: {text}")
                try:
                    payload = cloudpickle.dumps(error)
                    pickle.loads(payload)  # noqa: S301 - it is our own
                except Exception:  # noqa: BLE001 - its text and traceback go in any case
                    payload = b""
                facts = (type(error).__qualname__, str(error)[:10_000], text[-100_000:], payload)
                left[position] = (False, facts)
        return left

    return make_calls


class PackedJob:
    """A job of several calls. What they have left is fetched once for all of them."""

    def __init__(self, site: Site, future: Future[Job]) -> None:
        self._whole = FunctionJob(site, future)
        self._lock = threading.Lock()
        self._left: dict[int, tuple[bool, Any]] | None = None

    def returned(
        self, position: int, timeout_s: float | None = None, verdict: Verdict | None = None
    ) -> Returned:
        """The result of one call; waits for the job unless its ``verdict`` is known. Raises as
        ``FunctionJob.results`` if the job has failed."""
        with self._lock:
            if self._left is None:
                parts = (
                    self._whole.results(timeout_s)
                    if verdict is None
                    else self._whole.results_after(verdict)
                )
                self._left = {key: one for part in parts for key, one in part.items()}
        if position not in self._left:
            raise missing_call(self._whole.job.id, position)
        is_ok, found = self._left[position]
        if not is_ok:
            kind, text, trace, payload = found
            return Returned(error=raised(payload, kind, text, trace))
        return Returned(value=pickle.loads(found))  # noqa: S301 - see call_results.read_result


class PackedCall(FunctionJob):
    """One call of a job of several."""

    def __init__(self, site: Site, future: Future[Job], packed: PackedJob, position: int) -> None:
        super().__init__(site, future)
        self._packed = packed
        self._position = position

    def results(self, timeout_s: float | None = None) -> list[Any]:
        """The return value of the call, alone. Raises as ``result``."""
        return _value(self._packed.returned(self._position, timeout_s))

    def results_after(self, verdict: Verdict) -> list[Any]:
        """``results`` of a job that has ended with this verdict."""
        return _value(self._packed.returned(self._position, verdict=verdict))


def _value(returned: Returned) -> list[Any]:
    if returned.error is not None:
        raise returned.error
    return [returned.value]
