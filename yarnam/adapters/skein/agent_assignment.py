"""How an early container's agent learns what it is for (see ``early_containers``)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol

from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.untrusted import decode_record
from yarnam.errors import BadConfig, Unavailable, YarnamError
from yarnam.wire.protocol import ENV_ASK, assignment_key

ASSIGNMENT_LIMIT_S = 60.0
"""The ApplicationMaster releases in seconds what it does not take; longer means that it is gone
or that its Python does not start, and then YARN ends the container as well."""
POLL_S = 0.1
MAX_ASSIGNMENT_BYTES = 1 << 20
"""A few variables."""


class AssignmentSource(Protocol):
    def read_key(self, key: str) -> bytes | None: ...


def await_assignment(
    env: Mapping[str, str],
    skein: AssignmentSource,
    *,
    limit_s: float = ASSIGNMENT_LIMIT_S,
    now_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, str]:
    """The variables that an agent starts with otherwise. Raises Unavailable after ``limit_s``,
    BadConfig when what it was value makes no sense."""
    name = env.get("SKEIN_CONTAINER_ID", "")
    if not name:
        raise BadConfig(
            f"neither {ENV_ASK} nor SKEIN_CONTAINER_ID is set",
            hint="The agent runs in containers that yarnam's ApplicationMaster asked YARN for.",
        )
    key = assignment_key(name)
    deadline_s = now_s() + limit_s
    trouble = "the ApplicationMaster has not asked for this container"
    while True:
        try:
            value = skein.read_key(key)
        except YarnamError as error:
            value, trouble = None, error.message
        if value is not None:
            return _variables(value)
        if now_s() >= deadline_s:
            raise Unavailable(f"no ask for {name} in {limit_s:.0f} s: {trouble}")
        sleep(POLL_S)


def _variables(value: bytes) -> dict[str, str]:
    try:
        found = decode_record(value, max_bytes=MAX_ASSIGNMENT_BYTES)
        env = found.record("env")
        return {**{name: env.text(name) for name in env}, ENV_ASK: found.text("ask")}
    except MalformedData as error:
        raise BadConfig(
            f"what the ApplicationMaster has assigned makes no sense: {error.message}",
            hint="Submit the job with the yarnam that runs here.",
        ) from error
