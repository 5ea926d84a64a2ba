"""A command whose script is not shipped is refused before a gang is acquired for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from yarnam.errors import BadSpec
from yarnam.spec import parse_spec_text
from yarnam.spec.shipping.script_check import missing_script
from yarnam.spec.shipping.shipped_folder import LocalFolder
from yarnam.spec.values.fields import SHELL


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, LocalFolder]:
    for name in ("code/train.py", "code/pkg/eval.py", "code/left.py", "tools/run.sh"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "code" / ".yarnamignore").write_text("left.py")
    return {name: LocalFolder(tmp_path / name) for name in ("code", "tools")}


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("python3 code/trian.py --lr 1", "did you mean code/train.py?"),
        ("python3 trian.py", "did you mean train.py?"),
        ("python3 -u eval.py", "did you mean pkg/eval.py?"),
        ("torchrun --nproc-per-node 2 code/eval.py", "did you mean code/pkg/eval.py?"),
        ("python -m torch.distributed.run --nnodes 2 code/trainer.py", "code/train.py?"),
        ("accelerate launch --config_file c.yaml code/x/y.py", "code/x/y.py is not in what"),
        ("bash tools/rnu.sh", "did you mean tools/run.sh?"),
        ("tools/none", "tools/none is not in what is shipped"),
        ("python3 code/left.py", "code/left.py is not shipped: an ignore file"),
    ],
)
def test_a_script_that_is_not_there(
    folders: dict[str, LocalFolder], command: str, words: str
) -> None:
    for form in (command.split(), [*SHELL, command]):
        assert words in missing_script(form, folders, ["code", "tools"])


@pytest.mark.parametrize(
    "command",
    [
        "python3 code/train.py", "python3 train.py", "python3 ./train.py", "python3 -m pkg.eval",
        "python3 -m pytest tests/none.py", "python3 /opt/none.py", "python3 data.py", "sleep 10",
        "code/pkg/eval.py", "pkg/eval.py", "python3 -c pass none.py", "bash tools/run.sh",
        "env A=none.py python3 train.py", "python3 hdfs://x/none.py", "code/pkg", "$HOME/none.py",
        "python3 {script}.py", "python3 ../none.py",
    ],
)  # fmt: skip
def test_a_script_that_is_there_or_cannot_be_known(
    folders: dict[str, LocalFolder], command: str
) -> None:
    for form in (command.split(), [*SHELL, command]):
        assert missing_script(form, folders, ["code", "tools", "data.py"]) == ""


@pytest.mark.parametrize(
    "line",
    ["cp code/train.py none.py && python3 none.py", "python3 $SCRIPT none.py", "python3 'none.py"],
)
def test_a_shell_line_that_does_more_is_not_judged(
    folders: dict[str, LocalFolder], line: str
) -> None:
    assert missing_script([*SHELL, line], folders, ["code"]) == ""


def test_without_code_nothing_is_known() -> None:
    assert missing_script(["python3", "train.py"], {}, []) == ""


def test_the_spec_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("")
    text = (
        "version: 1\nname: job\nqueue: root.a\ncode: src\nroles:\n"
        "  worker: {tasks: 2, gpus: 1, command: [python3, code/trian.py]}\n"
    )
    with pytest.raises(BadSpec, match=r"job.yaml:6:\d+: roles.worker.command: code/trian.py"):
        parse_spec_text(text, "job.yaml", base_dir=tmp_path, environ={})
    text = text.replace("trian", "train").replace("src", "{path: src, ignore: git}")
    (file,) = parse_spec_text(text, "job.yaml", base_dir=tmp_path, environ={}).files
    assert file.uses_git_ignore
