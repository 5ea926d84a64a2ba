"""``yarnam advise``: the runs of a program's history, and the sizes that the cluster could hold."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.accounting.records import record
from tests.unit.cli.test_commands import SPEC, Call, call, world
from tests.unit.client.world import World
from yarnam.adapters.hdfs.history_store import HistoryStore
from yarnam.client.planning.program_key import program_key
from yarnam.core.accounting.history_record import MeasuredSize
from yarnam.core.model.job_spec import AdvisedSize, JobSpec, PreRunMode
from yarnam.wire.codec import decode
from yarnam.wire.records import JobRecord

__all__ = ["call", "world"]

SIZES = (
    MeasuredSize(1, 1, 1, 0.42, 0.42, 1000),
    MeasuredSize(1, 2, 2, 0.28, 0.22, 1000),
    MeasuredSize(1, 4, 4, 0.21, 0.12, 1000),
)
ONE_EACH = SPEC.replace("gpus: 8", "gpus: 4")


def spec(world: World, text: str = ONE_EACH) -> str:
    path = world.folder / "spec.yaml"
    path.write_text(text)
    return str(path)


def ran(world: World, sizes: tuple[MeasuredSize, ...] = SIZES, *, other: bool = False) -> None:
    """A job of this name has ended; ``other``: with another program."""
    job = world.client.parse(spec(world))
    key = "f" * 64 if other else program_key(world.site, job)
    made = record(
        name=job.name, user="me", framework=job.framework, program=key, sizes=sizes,
        application="application_1700000000000_0007",
    )  # fmt: skip
    store = HistoryStore(world.files, world.site.paths.history)
    store.put(made)


def test_without_runs_it_says_how_to_get_one(world: World, call: Call) -> None:
    code, out, err = call("advise", spec(world))
    assert (code, err) == (0, "")
    assert "No advice: too little is known of this program." in out
    assert "its speed goes into the history" in out


def test_the_runs_of_the_program_give_a_table_and_a_sentence(world: World, call: Call) -> None:
    ran(world)
    code, out, err = call("advise", spec(world))
    assert (code, err) == (0, "")
    assert "Advised: 8 GPUs in one node: 2.4 times one GPU; the network takes 60% of a step" in out
    assert "By one job of this program, the newest application_1700000000000_0007." in out
    assert "Not known for 16 GPUs on 2 nodes: it has not run on several nodes." in out
    assert re.search(r"advised +8 GPUs in one node +0\.17[5-7] s \(0\.154 s to 0\.24\d s\)", out)


def test_json_has_ranges_and_null_for_unknown(world: World, call: Call) -> None:
    ran(world)
    code, out, _ = call("advise", spec(world), "--json", "--aim", "finish")
    found = json.loads(out)
    assert code == 0
    assert found["is_advised"] is True
    first = found["plans"][0]
    assert first["option"]["gpus"] == 8
    assert first["step_s"]["likely"] == pytest.approx(0.175, rel=0.02)
    assert first["step_s"]["low"] < first["step_s"]["likely"] < first["step_s"]["high"]
    [far] = [plan for plan in found["plans"] if plan["option"]["gpus"] == 16]
    assert (far["step_s"]["likely"], far["step_s"]["high"]) == (None, None)


def test_aims_and_bounds(world: World, call: Call) -> None:
    ran(world)
    assert "Advised: 1 GPU in one node" in call("advise", spec(world), "--aim", "cost")[1]
    _, out, _ = call("advise", spec(world), "--max-gpus", "4")
    assert "Advised: 4 GPUs" in out
    assert "8 GPUs" not in out


def test_a_changed_program_is_said_to_be_one(world: World, call: Call) -> None:
    ran(world, other=True)
    _, out, _ = call("advise", spec(world))
    assert "of the same name with another program" in out
    assert "The program has changed since those runs" in out


def test_a_size_that_never_fits_is_named(world: World, call: Call) -> None:
    ran(world)
    code, out, _ = call("advise", spec(world, SPEC.replace("gpus: 8", "gpus: 800")))
    assert code == 0
    assert "never fits" in out
    assert "Advised: 8 GPUs" in out
    assert "gang-exceeds-cluster" in out


def test_one_size_gives_bounds_only(world: World, call: Call) -> None:
    ran(world, SIZES[:1])
    _, out, _ = call("advise", spec(world))
    assert "No advice" in out
    assert "it has run with one process only" in out
    assert "at least 0.105 s" in out


def test_an_elastic_range_bounds_the_sizes(world: World, call: Call) -> None:
    ran(world)
    elastic = SPEC.replace("gpus: 8", "gpus: {min: 2, max: 4}")
    found = json.loads(call("advise", spec(world, elastic), "--json")[1])
    assert {plan["option"]["gpus"] for plan in found["plans"]} == {2, 4}


def test_hostile_sizes_of_a_record_do_not_count(world: World, call: Call, tmp_path: Path) -> None:
    ran(world, tuple(replace(size, step_s=float("inf")) for size in SIZES))
    code, out, err = call("advise", spec(world))
    assert (code, err) == (0, "")
    assert "No advice" in out
    ran(world, tuple(replace(size, step_s=-1.0, processes=-3, nodes=0) for size in SIZES))
    code, out, _ = call("advise", spec(world))
    assert code == 0
    assert "No advice" in out


CHOSEN = SPEC.replace("gpus: 8", "gpus: {min: 1, max: 8, choose: advice}")


def submitted(world: World) -> JobSpec:
    handle = world.client.submit(spec(world, CHOSEN))
    return decode(world.files.read_bytes(f"{handle.directory}/job.json"), JobRecord).job


def test_a_submit_chooses_one_size_and_records_why(world: World) -> None:
    ran(world)
    job = submitted(world)
    assert (job.gpus, job.elastic_role) == (8, None)
    assert job.advised is not None
    assert job.advised.reason.startswith("8 GPUs in one node: 2.4 times one GPU")
    assert "predicted step 0.17" in job.advised.words(0.18)
    assert "measured 0.18 s" in job.advised.words(0.18)
    assert job.pre_run.mode is PreRunMode.AUTO


def test_without_runs_it_gets_its_smallest_size_and_is_told(world: World, call: Call) -> None:
    job = submitted(world)
    assert job.gpus == 1
    assert job.advised is not None
    assert job.advised.step_s is None
    assert "too little is known" in job.advised.words(None)
    code, out, _ = call("plan", spec(world, CHOSEN))
    assert code == 0
    assert "hello: 1 GPUs" in out


def test_tasks_of_a_role_are_chosen_too(world: World) -> None:
    ran(world)
    text = SPEC.replace(
        "gpus: 8", "roles: {worker: {tasks: {min: 1, max: 4, choose: advice}, gpus: 2}}"
    )
    handle = world.client.submit(spec(world, text))
    job = decode(world.files.read_bytes(f"{handle.directory}/job.json"), JobRecord).job
    [role] = job.roles
    assert (role.tasks, role.min_tasks, role.resources.gpus) == (4, None, 2)


def test_the_history_of_a_chosen_job_has_prediction_and_measurement(
    world: World, call: Call
) -> None:
    advised = AdvisedSize("8 GPUs in one node", 0.2, 0.15, 0.3)
    made = record(user="me", sizes=SIZES, advised=advised, application="application_1_0007")
    HistoryStore(world.files, world.site.paths.history).put(made)
    _, out, _ = call("history", "show", "application_1_0007")
    assert "4 processes on one node: a step took 0.21 s, 0.12 s of it compute" in out
    assert "predicted step 0.2 s (0.15 to 0.3), measured 0.21 s" in out


def test_usage_lists_the_jobs_whose_gpus_waited(world: World, call: Call) -> None:
    assert "None of 0 measured jobs" in call("usage", "--advice")[2]
    waited = MeasuredSize(1, 4, 4, 1.0, 0.2, 1000)
    store = HistoryStore(world.files, world.site.paths.history)
    store.put(record(user="me", sizes=(waited,), application="application_1_0007"))
    code, out, _ = call("usage", "--advice")
    assert code == 0
    assert "20% of a step" in out
    assert "unknown" in out
    [job] = json.loads(call("usage", "--advice", "--json")[1])
    assert (job["application"], job["efficiency"]) == ("application_1_0007", 0.2)
    code, _, err = call("usage", "--advice", "--every", "1h")
    assert code == 64
    assert "without --every" in err


def test_a_plan_has_one_line_of_it(world: World, call: Call) -> None:
    assert "By earlier runs" not in call("plan", spec(world))[1]
    ran(world)
    _, out, _ = call("plan", spec(world))
    assert "By earlier runs: 4 GPUs in one node: 2.0 times one GPU; the network takes 43%" in out
    found = json.loads(call("plan", spec(world), "--json")[1])
    assert found["predicted"]["step_s"]["likely"] == pytest.approx(0.21)
