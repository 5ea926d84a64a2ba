"""``yarnam docs``: a hint names a page that a user of the wheel can open."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.unit.architecture.test_prose import texts
from yarnam.cli.setup.docs_command import command

ROOT = Path(__file__).parents[3]
NAMED = re.compile(r"yarnam docs ([a-z-]+)")
OF_THE_REPOSITORY = re.compile(r"docs/[\w-]+/[\w-]+\.md")


TEXTS = [
    (f"{path.relative_to(ROOT)}:{line}", text)
    for path in sorted((ROOT / "yarnam").rglob("*.py"))
    for line, text in texts(path)[0]
]
"""Each string of the product but docstrings, with its place."""


def run(*args: str) -> tuple[int, str]:
    done = CliRunner().invoke(command, list(args), standalone_mode=False)
    return (1, str(done.exception)) if done.exception else (0, done.output)


def test_a_page_that_a_hint_names_exists() -> None:
    named = {name for _, text in TEXTS for name in NAMED.findall(text)}
    assert {"kerberos", "zookeeper", "gateway"} <= named
    for name in sorted(named):
        code, output = run(name)
        assert (code, output[:2]) == (0, "# "), name


def test_no_hint_names_a_path_of_the_repository() -> None:
    assert [where for where, text in TEXTS if OF_THE_REPOSITORY.search(text)] == []


def test_a_page_is_found_by_its_name_or_its_path() -> None:
    by_name = run("policies")[1]
    assert by_name == run("how-to/policies.md")[1]
    assert run("explanation/policies")[1] != by_name
    assert "kerberos " in run()[1]


@pytest.mark.parametrize(("page", "instead"), [("kerbers", "kerberos"), ("../../etc", "")])
def test_a_page_that_there_is_not(page: str, instead: str) -> None:
    code, message = run(page)
    assert code == 1
    assert f"no page {page}" in message
