"""The same seed, the same run: byte for byte, in any process."""

from __future__ import annotations

import pytest

from tests.sim.fresh_process import printed
from yarnam.sim import Mode, RmSettings, SimSettings, WorkloadSettings, simulate, workload
from yarnam.sim.yarn_model.resource_manager import SimResourceManager

pytestmark = pytest.mark.sim

SCRIPT = """
import hashlib, sys
from yarnam.sim import Mode, RmSettings, SimSettings, WorkloadSettings, simulate, workload
rm = RmSettings(nodes=20)
given = workload(WorkloadSettings(jobs=60, load=4.0, seed=int(sys.argv[2])), rm)
lines = []
settings = SimSettings(Mode[sys.argv[1]], seed=int(sys.argv[2]), rm=rm)
outcome = simulate(given, settings, lines.append)
text = "\\n".join([*lines, repr(outcome)])
print(len(lines), hashlib.sha256(text.encode()).hexdigest())
"""


def run(mode: str, seed: int, hash_seed: str) -> str:
    return printed(SCRIPT, mode, str(seed), hash_seed=hash_seed, limit_s=120.0)


@pytest.mark.parametrize("mode", ["TICKETS", "JITTER", "HOLD", "CENTRAL"])
def test_a_seed_reproduces_the_run_byte_for_byte(mode: str) -> None:
    first = run(mode, 3, "1")
    assert first == run(mode, 3, "2")
    assert first != run(mode, 4, "1")
    assert int(first.split()[0]) > 300 or mode in {"HOLD", "CENTRAL"}


def every_node(rm: SimResourceManager) -> set[int]:
    return set(range(len(rm.nodes.names)))


@pytest.mark.parametrize("mode", [Mode.TICKETS, Mode.HOLD])
def test_heartbeats_that_are_not_played_would_change_nothing(
    mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    rm = RmSettings(nodes=12)
    given = workload(WorkloadSettings(jobs=40, load=4.0, seed=5), rm)
    settings = SimSettings(mode, seed=5, rm=rm, limit_s=86400.0)
    few = simulate(given, settings)
    assert few.containers
    monkeypatch.setattr(SimResourceManager, "_of_use", every_node)
    assert repr(simulate(given, settings)) == repr(few)
