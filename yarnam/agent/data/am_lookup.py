"""Prints which ApplicationMaster a job's directory names: ``python -m … hdfs://…/DIRECTORY``."""

from __future__ import annotations

import sys
import time

import hdfs_utils
from hdfs_utils.errors import HdfsError
from yarnam.agent.mailbox.am_search import MAX_RECORD_BYTES, SEARCH_LIMIT_S, printed
from yarnam.wire.protocol import AM_FILE, VERDICT_FILE

UNREADABLE = 1
"""Exit code."""


def main() -> int:
    """Exits 0 once it has printed the record."""
    uri = sys.argv[1]
    try:
        files = hdfs_utils.connect(uri, timeout_s=SEARCH_LIMIT_S / 2)
        directory = files.own_path(uri).rstrip("/")
        record = files.read_bytes(f"{directory}/{AM_FILE}", max_bytes=MAX_RECORD_BYTES)
        has_verdict = files.exists(f"{directory}/{VERDICT_FILE}")
        found = printed(record, has_verdict=has_verdict, now_s=time.time())
        sys.stdout.buffer.write(found)
    except HdfsError as error:
        sys.stderr.write(f"{error}\n")
        return UNREADABLE
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
