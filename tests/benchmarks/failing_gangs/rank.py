"""One rank: steps with the others, and at some step the fault, if it is the one that has it."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, os.environ["GANG_CODE"])

from failing_gangs.collectives import COLLECTIVES
from failing_gangs.faults import FAULTS


def main() -> None:
    rank, size, port = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "PORT"))
    at_step = int(os.environ["FAULT_STEP"])
    is_bad = rank == int(os.environ["FAULT_RANK"])
    reduce = COLLECTIVES[os.environ["COLLECTIVE"]](rank, size, port)
    for step in range(1000):
        if is_bad and step == at_step:
            FAULTS[os.environ["FAULT"]][1]()
            # Some ways to fail end the process only by what follows.
            sys.exit("the fault did not fail")
        reduce()
        print(f"step {step} loss {1 / (step + 1):.3f}", flush=True)
        time.sleep(0.02)


if __name__ == "__main__":
    assert Path(os.environ["GANG_CODE"]).is_dir()
    main()
