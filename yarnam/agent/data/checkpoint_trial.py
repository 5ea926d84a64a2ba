"""Whether a job's checkpoints can be written from this node: tried before a pre-run starts.

By a process of its own, since the agent has no client of HDFS.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from contextlib import suppress

import hdfs_utils
from hdfs_utils.errors import HdfsError, Unavailable
from yarnam.agent.data.own_programs import run_program

_LOG = logging.getLogger("yarnam.agent")

TRIAL_LIMIT_S = 20.0
"""A file system that does not answer within this says nothing of the job: its process starts."""

MODULE = "yarnam.agent.data.checkpoint_trial"
REFUSED = 1
"""Exit code: no file can be written there, however often it is tried."""


async def checkpoint_problem(directory: str, env: Mapping[str, str]) -> str:
    """Why no file can be written to the directory (a URI or a path), which is made. Empty if one
    can, or if nobody knows. ``env``: of the container."""
    done = await run_program(MODULE, directory, env=env, limit_s=TRIAL_LIMIT_S)
    if done is None:
        _LOG.warning("%s did not answer within %.0f s", directory, TRIAL_LIMIT_S)
        return ""
    code, output = done
    return output.decode(errors="replace").strip() if code == REFUSED else ""


def write_trial(directory: str) -> str:
    """Write a file there and remove it. Returns why that is impossible; empty if it is possible,
    or the file system does not answer."""
    try:
        files = hdfs_utils.connect(directory, timeout_s=TRIAL_LIMIT_S / 2)
        path = files.own_path(directory)
        files.mkdirs(path)
        trial = f"{path.rstrip('/')}/.trial"
        files.write_bytes(trial, b"?", overwrite=True)
        with suppress(HdfsError):
            files.delete(trial)
    except Unavailable as error:
        _LOG.warning("%s was not tried: %s", directory, error)
    except HdfsError as error:
        kind = type(error)
        name = f"{kind.__module__}.{kind.__qualname__}"
        return f"no checkpoint can be written to {directory}: {name}: {error}"
    return ""


def main() -> int:
    """Exits 0 if a checkpoint can be written."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    problem = write_trial(sys.argv[1])
    sys.stdout.write(problem)
    return REFUSED if problem else 0


if __name__ == "__main__":
    raise SystemExit(main())
