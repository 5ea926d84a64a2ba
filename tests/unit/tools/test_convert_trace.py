"""Traces of single papers' repositories become CSVs that the product reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hdfs_utils.errors import MalformedData
from tools.convert_trace import FORMATS, convert, gavel_rates
from yarnam.client.planning.traces.trace_reading import read_jobs
from yarnam.sim.ideal.trace_job import TraceJob

GAVEL = "LM (batch size 5)\tcd x && python main.py\t--steps\t1\t500\t6.000000\t2\n"
RATES = json.dumps({"v100": {"('LM (batch size 5)', 2)": {"null": 10.0}}})

CASES = {
    "tiresias": (
        (
            "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
            "3,8,30,133,vgg11,147,23\n"
        ),
        TraceJob("3", 30.0, 147.0, 8, model="vgg11"),
    ),
    "muri": (
        (
            "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,"
            "iteration_time\n0,4,2000,1000,dqn,128,1,1,200\n"
        ),
        TraceJob("0", 2.0, 1000 * (200 * 1.015 / 1000), 4, model="dqn"),
    ),
    "itp": (
        "job_id,submission_time,duration,num_gpu\nq,5,10,2\n",
        TraceJob("q", 5.0, 10.0, 2),
    ),
    "gavel": (GAVEL, TraceJob("j1", 6.0, 50.0, 2, model="LM (batch size 5)")),
}


def test_each_format_has_a_case() -> None:
    assert set(CASES) == set(FORMATS)


@pytest.mark.parametrize("kind", CASES)
def test_a_trace_is_converted(kind: str, tmp_path: Path) -> None:
    text, job = CASES[kind]
    source, target, rates = (tmp_path / name for name in ("trace", "jobs.csv", "rates"))
    source.write_text(text)
    rates.write_text(RATES)
    assert convert(kind, source, target, rates if kind == "gavel" else None) == 1
    assert list(read_jobs(str(target), "csv").jobs) == [job]


def test_a_type_of_job_without_a_throughput_is_named(tmp_path: Path) -> None:
    source = tmp_path / "trace"
    source.write_text(GAVEL)
    rates = tmp_path / "rates"
    rates.write_text('{"v100": {}}')
    with pytest.raises(MalformedData, match=r"line 1: .*no throughput of 'LM \(batch"):
        convert("gavel", source, tmp_path / "jobs.csv", rates)


def test_throughputs_of_a_type_without_gpus_are_for_one() -> None:
    assert gavel_rates(b'{"k80": {"A3C": {"null": 2.5}, "B": {"null": -1.0}}}') == {"A3C/1": 2.5}
