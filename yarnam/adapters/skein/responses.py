"""The parts of the ResourceManager's responses that Skein does not pass on."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence

from hdfs_utils.errors import MalformedData
from yarnam.adapters.skein.response_log import (
    CompletedContainer,
    InterceptorFailed,
    KeptNotice,
    PreemptionNotice,
    Registered,
    Response,
    ResponseLog,
    UpdatedNode,
)
from yarnam.core.model.ids import ContainerId
from yarnam.core.model.printable import printable

log = logging.getLogger("yarnam.am")

MAX_COMPLETED = 4096
"""Containers whose end is remembered: several attempts of the largest gang."""


class Responses:
    """Keeps how containers ended, and passes news on. Not thread-safe.

    ``source``: the interceptor's log; ``None`` means there is none, and every answer is empty."""

    def __init__(self, source: ResponseLog | None = None) -> None:
        self._source = source
        self._completed: OrderedDict[ContainerId, CompletedContainer] = OrderedDict()
        self._news: list[PreemptionNotice | UpdatedNode] = []
        self.kept: set[ContainerId] = set()
        """Containers of earlier AM attempts that YARN has handed over."""
        self._has_warned = False
        self._is_registered = False

    @classmethod
    def of_this_container(cls, source: ResponseLog) -> Responses:
        """Logs once when Skein's JVM runs without the interceptor."""
        if source.exists():
            return cls(source)
        log.info(
            "no interceptor in Skein's ApplicationMaster: all heartbeats are sent, and YARN's "
            "preemption notices are not heard ('yarnam doctor' tells why)"
        )
        return cls()

    def poll(self) -> Sequence[PreemptionNotice | UpdatedNode]:
        """The news since the last call, in order."""
        self._read()
        news, self._news = self._news, []
        return news

    @property
    def is_silent(self) -> bool:
        """Nothing will ever be read: there is no interceptor."""
        return self._source is None

    def has_registered(self) -> bool:
        """Whether ``kept`` is complete."""
        self._read()
        return self._is_registered

    def _read(self) -> None:
        for found in self._source.read() if self._source is not None else ():
            if isinstance(found, (PreemptionNotice, UpdatedNode)):
                self._news.append(found)
            else:
                self._take(found)

    def completed(self, container: str) -> CompletedContainer | None:
        """How the container ended by YARN's report; ``None`` if none has been received."""
        return self._completed.get(ContainerId(container))

    def _take(self, found: Response | MalformedData) -> None:
        if isinstance(found, CompletedContainer):
            self._completed[found.container] = found
            while len(self._completed) > MAX_COMPLETED:
                self._completed.popitem(last=False)
        elif isinstance(found, KeptNotice):
            self.kept |= set(found.containers)
        elif isinstance(found, Registered):
            self._is_registered = True
        elif isinstance(found, InterceptorFailed):
            text = printable(found.diagnostics)
            log.warning("the interceptor in Skein's ApplicationMaster has failed: %s", text)
        elif not self._has_warned:
            self._has_warned = True
            log.warning("a line of the interceptor's log is passed over: %s", found)
