"""Entry of the agent: ``python -m yarnam.cli.containers.agent_process`` in a container's directory.

The keeper is forked before anything heavy is loaded: it stays small, and forking is safe then.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from yarnam._light_imports import light_imports
from yarnam.agent.keeper.keeper import become_subreaper, fork_keeper
from yarnam.wire.protocol import ENV_ASK


def main() -> NoReturn:
    """Ends the process with one of ``AgentExit``."""
    # gRPC starts threads; nothing forks from this process once they run.
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "false"
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    # Should the keeper be killed, what it leaves comes here instead of leaving the container.
    become_subreaper()
    pid, connection = fork_keeper(os.environ.get("CONTAINER_ID", ""))
    with light_imports(without_ssl=True):
        from yarnam.agent.entrypoint import run_agent
        from yarnam.agent.machine.agent_state import AgentExit
        from yarnam.cli.log_format import PrintableFormatter

    if ENV_ASK not in os.environ and not _is_assigned():
        os._exit(AgentExit.ORPHANED)
    formatter = PrintableFormatter("%(asctime)s %(levelname)s %(message)s")
    code = int(run_agent(os.environ, Path.cwd(), pid, connection, formatter))
    # Everything is closed and killed by now. The interpreter's own farewell could only hang on
    # gRPC's threads, and a container that does not end keeps its GPUs.
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # the disk of the container's logs may be full
            stream.flush()
    os._exit(code)


def _is_assigned() -> bool:
    """An early container waits here for its ask, with everything loaded that it will need."""
    from yarnam.adapters.skein.agent_assignment import await_assignment
    from yarnam.adapters.skein.am_client import GrpcSkeinAm
    from yarnam.core.model.printable import printable_lines
    from yarnam.errors import YarnamError

    try:
        skein = GrpcSkeinAm.of_this_container()
        os.environ.update(await_assignment(os.environ, skein))
        skein.close()
    except YarnamError as error:
        with suppress(OSError):
            sys.stderr.write(f"yarnam agent: {printable_lines(str(error))}\n")
            sys.stderr.flush()
        return False
    return True


if __name__ == "__main__":
    main()
