"""Entry of the agent: ``python -m yarnam.cli.agent_process`` in a container's directory.

The keeper is forked before anything heavy is loaded: it stays small, and forking is safe then.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

from yarnam.agent.keeper import become_subreaper, fork_keeper


def main() -> NoReturn:
    """Ends the process with one of ``yarnam.agent.life.AgentExit``."""
    # gRPC starts threads; nothing forks from this process once they run.
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "false"
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    # Should the keeper be killed, what it leaves comes here instead of leaving the container.
    become_subreaper()
    pid, connection = fork_keeper(os.environ.get("CONTAINER_ID", ""))
    from yarnam.agent.process import run_agent

    code = int(run_agent(os.environ, Path.cwd(), pid, connection))
    # Everything is closed and killed by now. The interpreter's own farewell could only hang on
    # gRPC's threads, and a container that does not end keeps its GPUs.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
