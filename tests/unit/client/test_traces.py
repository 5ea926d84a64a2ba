"""Traces in the formats of others: what becomes of each, and of files that are wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools import convert_trace
from yarnam.cli.shell import run
from yarnam.client.planning.traces import trace_file
from yarnam.client.planning.traces.trace_formats import FORMATS, FORMER
from yarnam.client.planning.traces.trace_reading import fitting, read_jobs
from yarnam.errors import UsageError
from yarnam.sim.ideal.trace_job import TraceJob

PHILLY = [
    {
        "status": "Pass",
        "vc": "v1",
        "jobid": "application_1",
        "submitted_time": "2017-10-09 07:00:00",
        "user": "u",
        "attempts": [
            {
                "start_time": "2017-10-09 07:01:00",
                "end_time": "2017-10-09 07:02:00",
                "detail": [
                    {"ip": "m1", "gpus": ["gpu0", "gpu1"]},
                    {"ip": "m2", "gpus": ["gpu0", "gpu1"]},
                ],
            }
        ],
    }
]  # fmt: skip

SWF = "; Version: 2.2\n  1 10 5 60 2 -1 -1 4 100 -1 1 7 7 -1 3 -1 -1 -1\n"

CASES = {
    "csv": (
        ("job,submit_s,run_s,gpus,declared_s,queue,tasks,least_gpus,most_gpus\n"
        "a,1.5,60,4,,root.q,2,2,8\n"),
        TraceJob("a", 1.5, 60.0, 4, None, "root.q", tasks=2, least_gpus=2, most_gpus=8),
    ),
    "philly": (json.dumps(PHILLY), TraceJob("j1", 1507532400.0, 60.0, 4, queue="root.v1", tasks=2)),
    "helios": (
        ("job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration\n"
        "77,u1,vc3,16,64,2,COMPLETED,1970-01-01 00:01:00,x,y,500\n"),
        TraceJob("77", 60.0, 500.0, 16, queue="vc3", user="u1", tasks=2),
    ),
    "alibaba": (
        ("j,worker,3.0,Terminated,100.0,160.0,600,29,50.0,P100\n"
        "j,ps,1.0,Terminated,110.0,170.0,600,29,100.0,P100\n"),
        TraceJob("j", 100.0, 70.0, 3),
    ),
    "swf": (SWF, TraceJob("1", 10.0, 60.0, 4, 100.0, "3", "7")),
}  # fmt: skip


def written(tmp_path: Path, text: str | bytes) -> str:
    path = tmp_path / "trace"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def test_each_format_has_a_case() -> None:
    assert set(CASES) | {"history"} == set(FORMATS)


@pytest.mark.parametrize("kind", CASES)
def test_a_format_is_read(kind: str, tmp_path: Path) -> None:
    text, job = CASES[kind]
    found = read_jobs(written(tmp_path, text), kind)
    assert [one._replace(run_s=pytest.approx(one.run_s)) for one in found.jobs] == [job]


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("csv", "job,submit_s,run_s\n", r"trace:1: no column gpus"),
        ("csv", "job,submit_s,run_s,gpus\na,1,1,1\nb,-1,1,1\n", r"trace:3: submit_s is '-1'"),
        ("csv", "job,submit_s,run_s,gpus\na,1,-5,1\n", r"trace:2: run_s is '-5'"),
        ("csv", "job,submit_s,run_s,gpus\na,1,x,1\n", r"trace:2: run_s is not a number: 'x'"),
        ("csv", "job,submit_s,run_s,gpus\na,1,nan,1\n", r"trace:2: run_s is 'nan'"),
        ("csv", "job,submit_s,run_s,gpus\na,1,1,1.5\n", r"trace:2: gpus is 1.5"),
        ("csv", "job,submit_s,run_s,gpus\na,1,1\n", r"trace:2: 3 fields, not 4"),
        ("csv", b"job,submit_s,run_s,gpus\n\xff,1,1,1\n", r"trace:2: no text in UTF-8"),
        ("csv", "job,submit_s,run_s,gpus\n" + "a" * 70000, r"trace:2: longer than"),
        ("csv", "job,submit_s,run_s,gpus,least_gpus,most_gpus\na,1,1,1,2,4\n", r"trace:2: gpus"),
        ("swf", "1 2 3\n", r"trace:1: 3 fields, not 18"),
        ("helios", "job_id,gpu_num,submit_time,duration\n1,1,soon,5\n", r"trace:2: submit_time"),
        ("philly", "{}", r"an array of jobs is expected"),
        ("philly", "[" * 100, r"trace: "),
    ],
)  # fmt: skip
def test_a_wrong_line_is_named(kind: str, text: str | bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        read_jobs(written(tmp_path, text), kind)
    assert caught.value.hint


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    rows = "a,0,0,1\nb,1,5,0\nc,2,5,99\nd,3,5,2\nd,1,7,2\n"
    found = read_jobs(written(tmp_path, "job,submit_s,run_s,gpus\n" + rows), "csv")
    assert (found.never_ran, found.without_gpus) == (1, 1)
    kept = fitting(found, 8)
    assert kept.too_large == 1
    assert [(job.job, job.submit_s) for job in kept.jobs] == [("d", 1.0), ("d#2", 3.0)]
    with pytest.raises(UsageError, match="no job that 1 GPUs could run: 3 jobs are larger"):
        fitting(found, 1)


def test_an_unknown_format_and_a_missing_file_are_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown format of a trace: 'heloos'") as caught:
        read_jobs("x", "heloos")
    assert caught.value.hint is not None
    assert "Did you mean helios?" in caught.value.hint
    with pytest.raises(UsageError, match="cannot read"):
        read_jobs(str(tmp_path / "nothing"), "csv")


@pytest.mark.parametrize("kind", FORMER)
def test_a_former_format_is_refused_with_its_converter(kind: str) -> None:
    with pytest.raises(UsageError, match=f"{kind} are not read any more") as caught:
        read_jobs("x", kind)
    assert f"python tools/convert_trace.py {kind} TRACE" in str(caught.value.hint)
    assert kind in convert_trace.FORMATS


def test_the_rates_of_gavel_are_refused_with_their_converter(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["sim", "compare", "--trace", "x", "--nodes", "1", "--rates", "f"]) == 64
    assert "tools/convert_trace.py, which takes --rates" in capsys.readouterr().err


def test_a_file_of_very_many_values_is_refused_before_they_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_file, "MAX_VALUES", 1000)
    (tmp_path / "t.json").write_text("[" + ",".join(["[]"] * 1001) + "]")
    with pytest.raises(UsageError, match="more than 1,000 values"):
        read_jobs(str(tmp_path / "t.json"), "philly")
