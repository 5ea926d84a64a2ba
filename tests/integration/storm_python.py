"""What the storm's nodes have for a Python: starts the ApplicationMaster or an agent as
``launch.sh`` does, with two doors for faults that real nodes have and this machine has not.

- An agent reaches its ApplicationMaster through a relay, which the storm's own process makes.
- ``time.time`` is off by what ``clocks/<address of the node>`` says, from the moment it says so.

Run as ``storm_python.py FOLDER LIBRARY MODULE``.
"""

import os
import runpy
import socket
import sys
import time
from pathlib import Path

REFRESH_S = 0.5
folder = sys.argv.pop(1)


def relayed(env):
    """The same variables with the relay's address for the ApplicationMaster's."""
    if "YARNAM_AM_ADDRESS" in env:
        try:
            host, _, port = Path(folder, "relays").read_text().partition(":")
            with socket.create_connection((host, int(port)), timeout=5) as made:
                made.sendall(f"{os.environ['CONTAINER_ID']} {env['YARNAM_AM_ADDRESS']}\n".encode())
                env["YARNAM_AM_ADDRESS"] = made.makefile().readline().strip()
        except OSError:
            pass  # The storm is over, and its jobs are about to be ended.
    return env


class Clock:
    """``time.time`` of a node whose clock is off."""

    def __init__(self):
        self.real, self.looked_at_s, self.offset_s = time.time, 0.0, 0.0
        self.path = Path(folder, "clocks", os.environ.get("NM_HOST", "none"))

    def __call__(self):
        if time.monotonic() - self.looked_at_s > REFRESH_S:
            self.looked_at_s = time.monotonic()
            try:
                self.offset_s = float(self.path.read_text())
            except (OSError, ValueError):
                self.offset_s = 0.0
        return self.real() + self.offset_s


sys.path.insert(0, sys.argv.pop(1))
module = sys.argv.pop(1)
time.time = Clock()
if module.endswith("agent_process"):
    from yarnam.adapters.skein import agent_assignment

    await_assignment = agent_assignment.await_assignment

    def assigned(*args, **more):
        return relayed(await_assignment(*args, **more))

    agent_assignment.await_assignment = assigned
    os.environ.update(relayed(dict(os.environ)))
runpy.run_module(module, run_name="__main__", alter_sys=True)
