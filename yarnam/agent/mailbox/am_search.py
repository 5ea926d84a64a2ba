"""Finds the job's next ApplicationMaster while the present one does not answer.

An attempt of the AM writes its address into the job's directory on HDFS. The agent has no client of
HDFS: another process reads the record, only while the AM is away.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Mapping
from typing import NamedTuple

from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.untrusted import decode_record

_LOG = logging.getLogger("yarnam.agent")

MODULE = "yarnam.agent.data.am_lookup"

FIRST_SEARCH_S = 1.0
"""Silence of the AM before the first look. A restart of the ResourceManager does not silence it."""
SEARCH_LIMIT_S = 10.0
"""For one look."""
MAX_RECORD_BYTES = 1 << 16


class AmSighting(NamedTuple):
    """The AM attempt that the job's directory names. ``address`` is host:port."""

    am_attempt: int
    address: str
    is_last: bool = False
    """No other one follows."""


class Absence(NamedTuple):
    """An AM that does not answer. Times by one clock that only grows."""

    heard_at_s: float
    """When it answered last."""
    confirmed_at_s: float = 0.0
    """When the job's directory showed last that no later attempt has taken over, and that one may
    follow."""

    def ends_at_s(self, orphan_timeout_s: float, absence_s: float) -> float:
        """When the agent gives up. Nobody has taken its task's place while the job's directory
        names no later AM, so it waits ``absence_s`` then. Without that proof, since it cannot read
        the directory, or cannot reach the AM that it names, ``orphan_timeout_s`` counts."""
        proven_at_s = max(self.heard_at_s, self.confirmed_at_s)
        patient_s = max(absence_s, orphan_timeout_s)
        return min(proven_at_s + orphan_timeout_s, self.heard_at_s + patient_s)


def search_pause_s(silent_s: float) -> float:
    """The time between two looks after this silence. YARN starts the next attempt within seconds,
    or, when the node was lost, after minutes; a look costs 0.3 s of CPU."""
    if silent_s < 20.0:
        return 2.0
    return 5.0 if silent_s < 300.0 else 10.0


async def find_am(job_dir: str, application: str, env: Mapping[str, str]) -> AmSighting | None:
    """``None`` if the job's directory cannot be read, or names no AM. ``env``: of the container."""
    # -m puts the working directory before everything else, and ours holds the user's files.
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", MODULE, job_dir, env=dict(env), cwd="/",
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        printed, _ = await asyncio.wait_for(process.communicate(), SEARCH_LIMIT_S)
    except asyncio.TimeoutError:
        _LOG.info("the job's directory did not answer within %.0f s", SEARCH_LIMIT_S)
        return None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    try:
        return sighting_in(printed, application)
    except MalformedData as error:
        _LOG.info("the job's directory names no ApplicationMaster: %s", error.message)
        return None


def sighting_in(printed: bytes, application: str) -> AmSighting:
    """From what the program prints. Raises MalformedData."""
    record = decode_record(printed, max_bytes=MAX_RECORD_BYTES)
    found = record.text("application", max_length=100)
    if application and found != application:
        raise MalformedData("it names an ApplicationMaster of another job")
    host = record.text("host", max_length=255)
    port = record.integer("port", least=1, most=65535)
    return AmSighting(
        record.integer("am_attempt", least=1, most=(1 << 31) - 1),
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
        record.flag("is_last"),
    )


def printed(am_record: bytes, *, has_verdict: bool, now_s: float) -> bytes:
    """The program's output for the AM's record. Raises MalformedData."""
    record = decode_record(am_record, max_bytes=MAX_RECORD_BYTES)
    replaced_from_s = record.plain.get("replaced_from_s", 0.0)
    is_last = not isinstance(replaced_from_s, int | float) or now_s < replaced_from_s
    plain = {
        "application": record.text("application", max_length=100),
        "am_attempt": record.integer("am_attempt", least=1, most=(1 << 31) - 1),
        "host": record.text("host", max_length=255),
        "port": record.integer("port", least=1, most=65535),
        "is_last": has_verdict or is_last,
    }
    return json.dumps(plain).encode()
