"""`yarnam spec ...` through the real command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from yarnam.cli.shell import run
from yarnam.spec import json_schema, template

BAD = "version: 1\nname: x\nqueue: root.q\ncommand: ls\ngpu: 1\n"


def test_validate_says_ok_for_each_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(tmp_path / name) for name in ("a.yaml", "b.yaml")]
    for file in files:
        Path(file).write_text(template())
    assert run(["spec", "validate", *files]) == 0
    assert capsys.readouterr().out == "".join(f"{file}: ok\n" for file in files)


def test_validate_tells_all_problems_of_all_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad, none = (str(tmp_path / name) for name in ("g.yaml", "b.yaml", "n.yaml"))
    Path(good).write_text(template())
    Path(bad).write_text(BAD)
    assert run(["spec", "validate", bad, good, none]) == 65
    shown = capsys.readouterr()
    assert shown.out == f"{good}: ok\n"
    assert f"{bad}:5:1: gpu: unknown key; did you mean gpus?\n" in shown.err
    assert f"{none}: no such file\n" in shown.err


def test_validate_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "g.yaml", tmp_path / "b.yaml"
    good.write_text(template())
    bad.write_text(BAD)
    assert run(["spec", "validate", "--json", str(good), str(bad)]) == 65
    assert json.loads(capsys.readouterr().out) == [
        {"file": str(good), "ok": True, "problems": []},
        {
            "file": str(bad),
            "ok": False,
            "problems": [
                {
                    "source": str(bad),
                    "line": 5,
                    "column": 1,
                    "path": "gpu",
                    "message": "unknown key; did you mean gpus?",
                }
            ],
        },
    ]
    assert run(["spec", "validate", "--json", str(good)]) == 0


def test_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["spec", "schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json_schema()


def test_init_prints_or_writes_but_never_over_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["spec", "init", "--framework", "jax"]) == 0
    assert capsys.readouterr().out == template("jax")
    file = tmp_path / "job.yaml"
    assert run(["spec", "init", "--framework", "jax", "-o", str(file)]) == 0
    assert run(["spec", "validate", str(file)]) == 65, "its script is not written yet"
    assert "code/train.py is not in what is shipped" in capsys.readouterr().err
    (tmp_path / "train.py").touch()
    assert run(["spec", "validate", str(file)]) == 0
    file.write_text("mine")
    capsys.readouterr()
    assert run(["spec", "init", "-o", str(file)]) == 64
    assert f"{file} already exists" in capsys.readouterr().err
    assert file.read_text() == "mine"
    assert run(["spec", "init", "-o", str(tmp_path / "no" / "where.yaml")]) == 64
    assert run(["spec", "init", "--framework", "keras"]) == 64


def test_the_command_line_is_there_before_the_parser_is() -> None:
    """`yarnam --help` has a quarter of a second; pydantic alone would take most of it."""
    code = (
        "import sys, yarnam.cli.setup.spec_command;"
        "loaded = {name for name, module in sys.modules.items() if type(module) is type(sys)};"
        "print(sorted({'pydantic', 'yaml', 'yarnam.spec'} & loaded))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_starter_for_a_former_framework_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["spec", "init", "--framework", "mxnet"]) == 64
    shown = capsys.readouterr().err
    assert "mxnet is not supported any more" in shown
    assert "DMLC_" in shown
