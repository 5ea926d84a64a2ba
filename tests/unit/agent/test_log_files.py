from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarnam.agent.launch.log_files import (
    LAST_LINES,
    MAX_LINE_CHARS,
    last_lines,
    start_of_last_lines,
)
from yarnam.core.model.printable import printable


def test_missing_and_empty_files_have_no_lines(tmp_path: Path) -> None:
    assert last_lines(tmp_path / "none") == ()
    (tmp_path / "empty").touch()
    assert last_lines(tmp_path / "empty") == ()


@given(st.binary(max_size=3000))
def test_any_bytes_become_lines_that_are_safe_to_print(data: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        path.write_bytes(data)
        lines = last_lines(path)
    assert len(lines) <= LAST_LINES
    for line in lines:
        assert len(line) <= MAX_LINE_CHARS
        assert line == printable(line, keep="\t")


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize("count", [1, 2, 3, 10**6])
def test_start_of_last_lines(tmp_path: Path, end: str, count: int) -> None:
    lines = [f"{number} " + "x" * (number * 7919 % 70000) for number in range(20)]
    path = tmp_path / "log"
    path.write_text("\n".join(lines) + end)
    start = start_of_last_lines(path, count)
    assert path.read_bytes()[start:].decode() == "\n".join(lines[-count:]) + end


def test_start_of_last_lines_of_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    assert start_of_last_lines(tmp_path / "log", 5) == 0


def test_secrets_are_not_in_the_last_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"token s3cret-value, longer s3cret-value-2, short ab\n")
    found = last_lines(path, ("s3cret-value", "s3cret-value-2", "ab"))
    assert found == ("token ***, longer ***, short ab",)
