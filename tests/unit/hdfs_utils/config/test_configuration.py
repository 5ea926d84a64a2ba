"""Hadoop's XML files as a dictionary."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from hdfs_utils.config import configuration
from hdfs_utils.errors import BadConfig

CORE = """<?xml version="1.0"?>
<configuration>
  <!-- a comment -->
  <property><name>fs.defaultFS</name><value> hdfs://${nn.host}:8020 </value></property>
  <property><name>nn.host</name><value>nn1</value></property>
  <property><name>shared</name><value>core</value></property>
  <property><name>fixed</name><value>first</value><final>true</final></property>
  <property><name>fixed</name><value>second</value></property>
  <property><name>kept</name><value>core</value></property>
  <property><name>no.value</name></property>
</configuration>
"""
HDFS = """<configuration>
  <property><name>shared</name><value>hdfs</value></property>
  <property><name>fixed</name><value>third</value></property>
  <property><name>kept</name><value></value></property>
</configuration>
"""


@pytest.fixture
def conf_dir(tmp_path: Path) -> str:
    (tmp_path / "core-site.xml").write_text(CORE)
    (tmp_path / "hdfs-site.xml").write_text(HDFS)
    return str(tmp_path)


@pytest.fixture
def no_conf_dir(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("HADOOP_HOME", raising=False)


def core_site(folder: Path, rows: str) -> dict[str, str]:
    include = 'xmlns:xi="http://www.w3.org/2001/XInclude"'
    (folder / "core-site.xml").write_text(f"<configuration {include}>{rows}</configuration>")
    return configuration.load(folder)


def row(name: str, value: str) -> str:
    return f"<property><name>{name}</name><value>{value}</value></property>"


def test_both_files_are_read_and_references_resolved(conf_dir: str) -> None:
    found = configuration.load(conf_dir)
    assert found["fs.defaultFS"] == "hdfs://nn1:8020"
    assert found["shared"] == "hdfs"
    assert "no.value" not in found


def test_a_final_property_holds_against_later_files_too(conf_dir: str) -> None:
    assert configuration.load(conf_dir)["fixed"] == "first"


def test_an_empty_value_leaves_the_earlier_one(conf_dir: str) -> None:
    assert configuration.load(conf_dir)["kept"] == "core"


def test_what_the_caller_gives_wins(conf_dir: str) -> None:
    given = {"nn.host": "nn2", "shared": "mine", "fixed": "mine"}
    found = configuration.load(conf_dir, given)
    assert found["fs.defaultFS"] == "hdfs://nn2:8020"
    assert (found["shared"], found["fixed"]) == ("mine", "mine")


def test_environment_names_the_directory(conf_dir: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", conf_dir)
    assert configuration.load()["nn.host"] == "nn1"
    monkeypatch.delenv("HADOOP_CONF_DIR")
    monkeypatch.setenv("HADOOP_HOME", "/opt/hadoop")
    assert configuration.conf_dir_from_environment() == "/opt/hadoop/etc/hadoop"
    monkeypatch.delenv("HADOOP_HOME")
    assert configuration.conf_dir_from_environment() is None
    assert configuration.load() == {}


def test_included_files_are_read_where_they_are_included(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/a.xml").write_text(
        '<configuration><include href="b.xml"/>' + row("a", "included") + "</configuration>"
    )
    (tmp_path / "parts/b.xml").write_text(f"<configuration>{row('b', '${a}')}</configuration>")
    rows = row("a", "before") + row("c", "before") + '<xi:include href="parts/a.xml"/>'
    found = core_site(tmp_path, rows + row("c", "after"))
    assert found == {"a": "included", "b": "included", "c": "after"}


def test_a_foreign_file_includes_nothing_outside_of_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "given"
    folder.mkdir()
    (tmp_path / "mine.xml").write_text("<configuration>" + row("a", "secret") + "</configuration>")
    (folder / "link.xml").symlink_to(tmp_path / "mine.xml")
    for href in ("../mine.xml", str(tmp_path / "mine.xml"), "link.xml"):
        (folder / "tony.xml").write_text(
            '<configuration xmlns:xi="http://www.w3.org/2001/XInclude">'
            f'<xi:include href="{href}"/></configuration>'
        )
        assert configuration.load(folder, files=("tony.xml",)) == {"a": "secret"}
        with pytest.raises(BadConfig, match="which is not in"):
            configuration.load(folder, files=("tony.xml",), is_foreign=True)


@pytest.mark.parametrize("value", ["${env.TOKEN}", "${env.TOKEN:-none}", "${${a}TOKEN}", "x${b}"])
def test_a_foreign_file_learns_no_variable_of_its_reader(
    tmp_path: Path, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "secret")
    rows = row("a", "env.") + row("b", "${env.TOKEN}") + row("c", value)
    (tmp_path / "tony.xml").write_text(f"<configuration>{rows}</configuration>")
    assert "secret" in configuration.load(tmp_path, files=("tony.xml",))["c"]
    with pytest.raises(BadConfig, match="a variable of whoever reads it"):
        configuration.load(tmp_path, files=("tony.xml",), is_foreign=True)


def test_an_included_final_property_holds(tmp_path: Path) -> None:
    part = "<property><name>a</name><value>part</value><final>true</final></property>"
    (tmp_path / "part.xml").write_text(f"<configuration>{part}</configuration>")
    assert core_site(tmp_path, '<xi:include href="part.xml"/>' + row("a", "later"))["a"] == "part"


def test_the_fallback_counts_where_the_included_file_is_missing(tmp_path: Path) -> None:
    fallback = f"<xi:fallback>{row('a', 'fallback')}</xi:fallback>"
    include = f'<xi:include href="part.xml">{fallback}</xi:include>'
    assert core_site(tmp_path, include) == {"a": "fallback"}
    (tmp_path / "part.xml").write_text(f"<configuration>{row('b', 'part')}</configuration>")
    assert core_site(tmp_path, include) == {"b": "part"}


@pytest.mark.parametrize("href", ["part.xml", "core-site.xml"])
def test_an_include_that_leads_nowhere_names_the_file(tmp_path: Path, href: str) -> None:
    with pytest.raises(BadConfig, match=r"core-site\.xml"):
        core_site(tmp_path, f'<xi:include href="{href}"/>')


def test_properties_may_be_attributes(tmp_path: Path) -> None:
    rows = '<property name="a" value="1" final="true"/>' + row("a", "2")
    assert core_site(tmp_path, rows) == {"a": "1"}


@pytest.mark.usefixtures("no_conf_dir")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("${b}/${b}", "x/x"),
        ("${missing}", "${missing}"),
        # As Hadoop: from the first unknown one on nothing is resolved.
        ("${b}/${missing}/${b}", "x/${missing}/${b}"),
        ("${env.WHO}", "me"),
        ("${env.NOBODY}", "${env.NOBODY}"),
        ("${env.NOBODY-you}/${env.WHO-you}", "you/me"),
        ("${env.EMPTY-you}|${env.EMPTY:-you}", "|you"),
        ("${env.NOBODY:-}|", "|"),
        ("${env.NOBODY:-a-b}", "a-b"),
        ("${nested}", "y"),
        ("${user.name}", pwd.getpwuid(os.getuid()).pw_name),
        ("${loop}", "${loop}"),
        ("${ping}", "${ping}"),
    ],
)
def test_references(value: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHO", "me")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.delenv("NOBODY", raising=False)
    given = {
        "value": value, "b": "x", "which": "c", "c": "y", "nested": "${${which}}",
        "loop": "${loop}", "ping": "${pong}", "pong": "${ping}",
    }  # fmt: skip
    assert configuration.load(overrides=given)["value"] == expected


def test_missing_directory_and_broken_file(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="HADOOP_CONF_DIR"):
        configuration.load(str(tmp_path / "missing"))
    assert configuration.load(str(tmp_path)) == {}
    (tmp_path / "core-site.xml").write_text("<configuration><property>")
    with pytest.raises(BadConfig, match=r"core-site\.xml.*cannot be read"):
        configuration.load(str(tmp_path))
