"""Entry of the agent: ``python -m yarnam.cli.agent_process`` in a container's directory.

The keeper is forked before anything heavy is loaded: it stays small, and forking is safe then.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from yarnam.agent.keeper import become_subreaper, fork_keeper


def main() -> int:
    """Returns one of ``yarnam.agent.life.AgentExit``."""
    # gRPC starts threads; nothing forks from this process once they run.
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "false"
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    # Should the keeper be killed, what it leaves comes here instead of leaving the container.
    become_subreaper()
    pid, connection = fork_keeper(os.environ.get("CONTAINER_ID", ""))
    from yarnam.agent.process import run_agent

    return int(run_agent(os.environ, Path.cwd(), pid, connection))


if __name__ == "__main__":
    sys.exit(main())
