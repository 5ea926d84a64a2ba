"""``yarnam top`` over a client on fakes, in a process of its own: its terminal is a real one."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from tests.unit.client.world import APPLICATION, World, status, task
from yarnam.cli.shell import Shell, run
from yarnam.cli.signals import end_cleanly_on_signals
from yarnam.core.model.metrics import Measured


def world_of(folder: Path) -> World:
    world = World(folder)
    used = (("gpu_percent", Measured(87.0)), ("memory_bytes", Measured(2.0**30)))
    one = task("worker-0", (0,), gpu_ids=("3",), usage=used, memory_limit_bytes=2**32)
    world.line.statuses = [status(at_s=time.time(), step=5, tasks=(one,))]
    world.job()
    return world


def main() -> int:
    end_cleanly_on_signals()
    with tempfile.TemporaryDirectory() as folder:
        world = world_of(Path(folder))
        if "ends" in sys.argv:
            sys.argv.remove("ends")
            world.rm.on_look = lambda _: _end_later(world)
        return run(["top", *sys.argv[1:]], Shell(lambda **_: world.client))


def _end_later(world: World) -> None:
    if time.monotonic() - BEGAN_S > 1.0:
        world.rm.change(APPLICATION, state="FINISHED", final_status="SUCCEEDED")


BEGAN_S = time.monotonic()

if __name__ == "__main__":
    sys.exit(main())
