"""Programs of yarnam's own that the agent runs beside itself: they use HDFS's client, which the
agent does without."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence


async def start_program(
    module: str, *arguments: str, env: Mapping[str, str], stdin: int | None = None,
    stdout: int | None = None, pass_fds: Sequence[int] = (),
) -> asyncio.subprocess.Process:  # fmt: skip
    """Start ``python -m module``. ``env``: of the container."""
    # -m puts the working directory before everything else, and ours holds the user's files.
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *arguments, env=dict(env), cwd="/", stdin=stdin,
        stdout=stdout, pass_fds=pass_fds,
    )  # fmt: skip


async def run_program(
    module: str, *arguments: str, env: Mapping[str, str], limit_s: float
) -> tuple[int, bytes] | None:
    """The exit code and the output; ``None`` if it did not end within the limit. It does not
    outlive the call."""
    process = await start_program(module, *arguments, env=env, stdout=asyncio.subprocess.PIPE)
    try:
        output, _ = await asyncio.wait_for(process.communicate(), limit_s)
    except asyncio.TimeoutError:
        return None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return process.returncode, output
