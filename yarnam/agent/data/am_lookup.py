"""Reads which ApplicationMaster the job's directory on HDFS names.

By a process of its own, since the agent has no client of HDFS, and only while the AM is away.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping

import hdfs_utils
from hdfs_utils.errors import HdfsError, MalformedData
from hdfs_utils.protocols.untrusted import decode_record
from yarnam.agent.data.own_programs import run_program
from yarnam.agent.mailbox.am_search import AmSighting
from yarnam.wire.protocol import AM_FILE, VERDICT_FILE

_LOG = logging.getLogger("yarnam.agent")

MODULE = "yarnam.agent.data.am_lookup"

LOOKUP_LIMIT_S = 10.0
MAX_RECORD_BYTES = 1 << 16
UNREADABLE = 1
"""Exit code."""


async def find_am(job_dir: str, application: str, env: Mapping[str, str]) -> AmSighting | None:
    """``None`` if the job's directory cannot be read, or names no AM. ``env``: of the container."""
    done = await run_program(MODULE, job_dir, application, env=env, limit_s=LOOKUP_LIMIT_S)
    if done is None:
        _LOG.info("the job's directory did not answer within %.0f s", LOOKUP_LIMIT_S)
        return None
    code, output = done
    try:
        return AmSighting(*json.loads(output)) if code == 0 else None
    except (ValueError, TypeError) as error:
        _LOG.info("the job's directory names no ApplicationMaster: %r", error)
        return None


def sighting_in(
    am_record: bytes, application: str, *, has_verdict: bool, now_s: float
) -> AmSighting:
    """The AM that the record names, if it is one of this application. Raises MalformedData."""
    record = decode_record(am_record, max_bytes=MAX_RECORD_BYTES)
    found = record.text("application", max_length=100)
    if application and found != application:
        raise MalformedData("it names an ApplicationMaster of another job")
    host = record.text("host", max_length=255)
    port = record.integer("port", least=1, most=65535)
    replaced_from_s = record.plain.get("replaced_from_s", 0.0)
    is_last = not isinstance(replaced_from_s, int | float) or now_s < replaced_from_s
    return AmSighting(
        record.integer("am_attempt", least=1, most=(1 << 31) - 1),
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
        has_verdict or is_last,
    )


def main() -> int:
    """Exits 0 once it has printed the sighting."""
    uri, application = sys.argv[1:]
    try:
        files = hdfs_utils.connect(uri, timeout_s=LOOKUP_LIMIT_S / 2)
        directory = files.own_path(uri).rstrip("/")
        record = files.read_bytes(f"{directory}/{AM_FILE}", max_bytes=MAX_RECORD_BYTES)
        has_verdict = files.exists(f"{directory}/{VERDICT_FILE}")
        seen = sighting_in(record, application, has_verdict=has_verdict, now_s=time.time())
    except HdfsError as error:
        sys.stderr.write(f"{error}\n")
        return UNREADABLE
    sys.stdout.write(json.dumps(seen))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
