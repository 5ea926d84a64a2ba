"""The set-up scripts' own decisions; that they set up is shown by tests/setup."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools import fetch_pip, set_up


def test_an_old_python_looks_for_a_newer_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 8, 18))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(set_up.SetUpFailed, match=r"3\.10 or newer is needed; this is 3\.8"):
        set_up.find_python()
    for name in ("python3.10", "python3.12"):
        (tmp_path / name).touch(mode=0o755)
    assert set_up.find_python() == str(tmp_path / "python3.12")


def test_the_newest_whole_release_of_pip_is_taken() -> None:
    links = fetch_pip.Links("https://index.example/simple/pip/")
    links.feed(
        '<a href="../../p/pip-25.1-py3-none-any.whl#sha256=aa">x</a>'
        '<a href="/p/pip-26.0.1-py3-none-any.whl#sha256=bb">x</a>'
        '<a href="/p/pip-27.0b1-py3-none-any.whl#sha256=cc">a pre-release</a>'
        '<a data-yanked="" href="/p/pip-28.0-py3-none-any.whl#sha256=dd">taken back</a>'
        '<a href="/p/pip-29.0-py3-none-any.whl">without a checksum</a>'
        '<a href="/p/pip-30.0.tar.gz#sha256=ee">no wheel</a>'
    )
    assert max(links.wheels) == (
        (26, 0, 1),
        "https://index.example/p/pip-26.0.1-py3-none-any.whl",
        "bb",
    )


def test_the_index_is_the_one_that_pip_would_use(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    settings = tmp_path / "pip.conf"
    settings.write_text("[global]\nindex-url = https://mirror.example/simple\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(settings))
    assert fetch_pip.index_url() == "https://mirror.example/simple"
    monkeypatch.setenv("PIP_INDEX_URL", "https://other.example/simple")
    assert fetch_pip.index_url() == "https://other.example/simple"
