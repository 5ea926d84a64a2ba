"""``yarnam sim compare``: a table, JSON, rows and a picture, the same for equal seeds."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from yarnam.cli.setup.sim_command import command
from yarnam.errors import UsageError

TRACE = "job,submit_s,run_s,gpus\n" + "".join(
    f"j{number},{number * 60},{600 + 37 * number % 900},{1 << number % 4}\n" for number in range(30)
)


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "trace.csv"
    path.write_text(TRACE + "huge,0,60,99\n")
    return str(path)


def compare(trace: str, *more: str) -> Result:
    return CliRunner().invoke(command, ["compare", "--trace", trace, "--nodes", "2", *more])


def test_policies_over_a_trace(trace: str, tmp_path: Path) -> None:
    rows, picture = tmp_path / "rows.jsonl", tmp_path / "out.svg"
    done = compare(
        trace, "--policy", "fifo", "--policy", "tiresias:limits=600+7200,promote=2", "--seeds", "2",
        "-o", str(rows), "--plot", str(picture),
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "30 jobs of trace.csv on 16 GPUs; mean of 2 seeds ± 95 %" in done.stdout
    assert "Left out: 1 jobs that need more than the cluster's 16 GPUs." in done.stderr
    lines = [json.loads(line) for line in rows.read_text().splitlines()]
    assert len(lines) == 60
    assert {line["policy"] for line in lines} == {"fifo", "tiresias:limits=600+7200,promote=2"}
    drawn = ET.parse(picture).getroot()
    assert len(drawn.findall("{http://www.w3.org/2000/svg}polyline")) == 6


def test_the_picture_has_marks_and_draws_gpus_in_use_as_steps(trace: str, tmp_path: Path) -> None:
    picture = tmp_path / "out.svg"
    done = compare(trace, "--policy", "fifo", "--overhead", "none", "--plot", str(picture))
    assert done.exit_code == 0, done.output
    drawn = ET.parse(picture).getroot()
    svg = "{http://www.w3.org/2000/svg}"
    texts = [one.text or "" for one in drawn.iter(f"{svg}text")]
    assert {"0%", "50%", "100%", "0", "5", "10", "15"} <= set(texts)
    assert len(drawn.findall(f"{svg}line")) > 20
    curve = drawn.findall(f"{svg}polyline")[-1].get("points", "").split()
    corners = [tuple(map(float, point.split(","))) for point in curve]
    steps = pairwise(corners)
    assert all(x == later or y == below for (x, y), (later, below) in steps)


def test_the_options_of_published_figures(trace: str, tmp_path: Path) -> None:
    """``ones`` costs a second a start, all others a minute."""
    models = TRACE.splitlines()
    path = tmp_path / "models.csv"
    path.write_text(f"{models[0]},model\n" + "".join(f"{line},ones\n" for line in models[1:]))
    costs = tmp_path / "costs.csv"
    costs.write_text("model,gpus,start_s\n" + "".join(f"ones,{1 << n},1\n" for n in range(4)))
    usual = ["--policy", "fifo", "--json", "--pause-cost", "60"]
    found = [
        json.loads(compare(str(path), *usual, *more).stdout)[0]["jct_mean_s"]
        for more in ((), ("--pause-costs", str(costs)), ("--ties", "one-by-one"), ("--free-moves",))
    ]
    dear, cheap, *_ = found
    assert cheap < dear - 59.0
    costs.write_text("model,gpus,start_s\nones,1,soon\n")
    done = compare(str(path), *usual, "--pause-costs", str(costs))
    assert isinstance(done.exception, UsageError)
    assert "costs.csv:2" in done.exception.message
    done = compare(str(path), *usual, "--model", "yarn", "--free-moves")
    assert "of the ideal model alone" in done.output


def test_samples_come_from_a_file(trace: str, tmp_path: Path) -> None:
    samples = tmp_path / "samples.txt"
    samples.write_text("600\n700, 900 1500\n")
    from_file = compare(trace, "--policy", f"gittins:least_run=0,samples=@{samples}", "--json")
    written = compare(trace, "--policy", "gittins:least_run=0,samples=600+700+900+1500", "--json")
    none = compare(trace, "--policy", "gittins:least_run=0", "--json")
    assert (
        json.loads(from_file.stdout)[0]["estimates"] == (json.loads(written.stdout)[0]["estimates"])
    )
    assert "no samples are given" in none.stderr
    assert "no samples are given" not in from_file.stderr


def test_the_model_of_yarn_stands_beside_the_ideal_one(trace: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(command, ["--trace", trace, "--nodes", "2"])
    assert done.exit_code == 0, done.output
    rows = [line.split()[0] for line in done.stdout.splitlines()[2:]]
    assert rows == ["smallest-first", "smallest-first,"]
    written = tmp_path / "rows.jsonl"
    done = compare(
        trace, "--policy", "srtf:least_run=0", "--model", "ideal", "--model", "yarn", "--json",
        "-o", str(written),
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    lines = [json.loads(line) for line in written.read_text().splitlines()]
    by_model = Counter(line["policy"] for line in lines)
    assert by_model == {"srtf:least_run=0": 30, "srtf:least_run=0, yarn": 30}
    _, yarn = json.loads(done.stdout)
    assert yarn["name"] == "srtf:least_run=0, yarn"
    assert yarn["suspensions"] > 0


def test_sizes_change_in_both_models(tmp_path: Path) -> None:
    path = tmp_path / "elastic.csv"
    path.write_text(
        "job,submit_s,run_s,gpus,least_gpus,most_gpus\na,0,4000,4,1,16\nb,900,4000,4,1,16\n"
    )
    done = compare(
        str(path), "--policy", "optimus", "--model", "ideal", "--model", "yarn", "--json"
    )
    assert done.exit_code == 0, done.output
    ideal, yarn = json.loads(done.stdout)
    assert ideal["resizes"] > 0
    assert yarn["resizes"] > 0
    assert yarn["unfinished"] == 0


def test_equal_seeds_give_equal_bytes(trace: str) -> None:
    first = compare(trace, "--policy", "srtf", "--seeds", "2", "--json")
    again = compare(trace, "--policy", "srtf", "--seeds", "2", "--json")
    assert first.stdout == again.stdout
    other = compare(trace, "--policy", "srtf", "--seeds", "2", "--seed", "8", "--json")
    assert other.stdout != first.stdout
    found: list[dict[str, Any]] = json.loads(first.stdout)
    assert found[0]["jobs"] == 30
    assert found[0]["estimates"]["jct_mean_s"]["half"] > 0


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--policy", "fivo"), "unknown policy 'fivo'"),
        (("--policy", "gandiva:slice=0"), "slice is '0'"),
        (("--policy", "gandiva:slice"), "is not a setting"),
        (("--format", "json"), "unknown format of a trace"),
    ],
)
def test_what_is_wrong_is_told(trace: str, more: tuple[str, ...], message: str) -> None:
    done = compare(trace, *more)
    assert isinstance(done.exception, UsageError)
    assert message in done.exception.message
