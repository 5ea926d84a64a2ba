"""Hadoop's XML files as a dictionary."""

from __future__ import annotations

from pathlib import Path

import pytest

from hdfs_utils import conf
from hdfs_utils.errors import BadConfig

CORE = """<?xml version="1.0"?>
<configuration>
  <!-- a comment -->
  <property><name>fs.defaultFS</name><value> hdfs://${nn.host}:8020 </value></property>
  <property><name>nn.host</name><value>nn1</value></property>
  <property><name>shared</name><value>core</value></property>
  <property><name>fixed</name><value>first</value><final>true</final></property>
  <property><name>fixed</name><value>second</value></property>
  <property><name>empty</name><value></value></property>
  <property><name>no.value</name></property>
</configuration>
"""
HDFS = """<configuration>
  <property><name>shared</name><value>hdfs</value></property>
</configuration>
"""


@pytest.fixture
def conf_dir(tmp_path: Path) -> str:
    (tmp_path / "core-site.xml").write_text(CORE)
    (tmp_path / "hdfs-site.xml").write_text(HDFS)
    return str(tmp_path)


def test_both_files_are_read_and_references_resolved(conf_dir: str) -> None:
    found = conf.load(conf_dir)
    assert found["fs.defaultFS"] == "hdfs://nn1:8020"
    assert found["shared"] == "hdfs"
    assert found["fixed"] == "first"
    assert found["empty"] == ""
    assert "no.value" not in found


def test_what_the_caller_gives_wins(conf_dir: str) -> None:
    found = conf.load(conf_dir, {"nn.host": "nn2", "shared": "mine"})
    assert found["fs.defaultFS"] == "hdfs://nn2:8020"
    assert found["shared"] == "mine"


def test_environment_names_the_directory(conf_dir: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", conf_dir)
    assert conf.load()["nn.host"] == "nn1"
    monkeypatch.delenv("HADOOP_CONF_DIR")
    monkeypatch.setenv("HADOOP_HOME", "/opt/hadoop")
    assert conf.conf_dir_from_environment() == "/opt/hadoop/etc/hadoop"
    monkeypatch.delenv("HADOOP_HOME")
    assert conf.conf_dir_from_environment() is None
    assert conf.load() == {}


def test_references(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("HADOOP_HOME", raising=False)
    monkeypatch.setenv("WHO", "me")
    given = {"user": "${env.WHO}", "a": "${b}/${missing}/${b}", "b": "x", "loop": "${loop}"}
    found = conf.load(overrides=given)
    assert found["user"] == "me"
    assert found["a"] == "x/${missing}/x"
    assert found["loop"] == "${loop}"


def test_missing_directory_and_broken_file(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="HADOOP_CONF_DIR"):
        conf.load(str(tmp_path / "missing"))
    assert conf.load(str(tmp_path)) == {}
    (tmp_path / "core-site.xml").write_text("<configuration><property>")
    with pytest.raises(BadConfig, match=r"core-site\.xml.*cannot be read"):
        conf.load(str(tmp_path))
