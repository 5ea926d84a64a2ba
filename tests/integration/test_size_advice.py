"""Runs on one and two GPUs tell how fast four are, and a submit then chooses them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.fault_world import MARKS

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld

pytestmark = MARKS

# A shared batch of 0.3 s, and a network as that of a ring.
PROGRAM = """
import os, time
from yarnam import train
size = train.world_size()
for step in range(30):
    with train.compute():
        time.sleep(0.02 + 0.3 / size)
    time.sleep(0.05 * 2 * (size - 1) / size)
    train.report(step=step, total_steps=3000)
"""


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_next_submit_is_advised_by_the_runs_before(world: FaultWorld) -> None:
    def document(name: str, gpus: object) -> dict[str, Any]:
        made = world.document(name, ["python3", "-c", PROGRAM], framework="command")
        del made["roles"]
        return made | {
            "name": "advised", "gpus": gpus, "memory_per_gpu": "1GiB", "vcores_per_gpu": 1,
        }  # fmt: skip

    def run(name: str, gpus: object) -> str:
        submitted = world.yarnam("submit", str(world.write(document(name, gpus))), "--json").wait()
        application = json.loads(submitted.out)["application"]
        world.end_of(world.client.job(application))
        return application

    run("one", 1)
    run("two", 2)
    spec = world.write(document("advise", 2))
    found = json.loads(world.yarnam("advise", str(spec), "--max-gpus", "4", "--json").wait().out)
    assert found["is_advised"]
    [four] = [plan for plan in found["plans"] if plan["option"]["gpus"] == 4]
    predicted_s = four["step_s"]["likely"]
    assert not four["is_measured"]
    assert "network takes" in four["reason"]
    chosen = run("chosen", {"min": 1, "max": 4, "choose": "advice"})
    record = json.loads(world.yarnam("history", "show", chosen, "--json").wait().out)
    [size] = record["sizes"]
    print(f"predicted {predicted_s:.3f} s, measured {size['step_s']:.3f} s; {record['advised']}")
    assert (size["processes"], record["advised"]["reason"][:6]) == (4, "4 GPUs")
    assert size["step_s"] == pytest.approx(predicted_s, rel=0.15)
