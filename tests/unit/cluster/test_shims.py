"""The commands and variables a user gets."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from yarnam.cluster.cluster_paths import ClusterPaths
from yarnam.cluster.cluster_plan import ClusterPlan
from yarnam.cluster.hadoop.shims import environment, shell_exports, write_shims
from yarnam.cluster.shape import ClusterShape


@pytest.fixture
def odd_plan(make_plan: Callable[..., ClusterPlan], tmp_path: Path) -> ClusterPlan:
    """A plan below a folder whose name a careless script would trip over."""
    base = tmp_path / "it's $HOME & co"
    plan = make_plan(paths=ClusterPaths(base, "test"), jar_folder=base / "jars")
    plan.jar_folder.mkdir(parents=True)
    for name in ("b.jar", "a.jar"):
        (plan.jar_folder / name).touch()
    plan.paths.conf.mkdir(parents=True)
    java = base / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text('#!/bin/sh\necho "$CLASSPATH"\nfor each; do echo "$each"; done\n')
    java.chmod(0o755)
    plan = replace(plan, java_home=base / "java")
    write_shims(plan)
    return plan


def run(plan: ClusterPlan, *argv: str) -> subprocess.CompletedProcess[str]:
    script = f'{shell_exports(plan)}\nexec "$@"'
    return subprocess.run(
        ["bash", "-c", script, "bash", *argv], capture_output=True, text=True, check=False
    )


def test_the_class_path_is_what_skein_asks_for(odd_plan: ClusterPlan) -> None:
    conf, jars = odd_plan.paths.conf, odd_plan.jar_folder
    answer = run(odd_plan, "yarn", "classpath", "--glob")
    assert answer.stdout == f"{conf}:{jars}/a.jar:{jars}/b.jar\n"
    assert run(odd_plan, "yarn", "classpath").stdout == f"{conf}:{jars}/*\n"


def test_arguments_arrive_unchanged(odd_plan: ClusterPlan) -> None:
    answer = run(odd_plan, "hdfs", "dfs", "-put", "a b", "*", "")
    lines = answer.stdout.splitlines()
    assert lines[0].startswith(f"{odd_plan.paths.conf}:")
    assert lines[-5:] == ["org.apache.hadoop.fs.FsShell", "-put", "a b", "*", ""]


def test_a_subcommand_that_is_part_of_its_class_is_kept(odd_plan: ClusterPlan) -> None:
    lines = run(odd_plan, "yarn", "app", "-list").stdout.splitlines()
    assert lines[-3:] == ["org.apache.hadoop.yarn.client.cli.ApplicationCLI", "app", "-list"]


@pytest.mark.parametrize("argv", [["hdfs"], ["yarn", "jar"]])
def test_an_unknown_command_says_which_there_are(odd_plan: ClusterPlan, argv: list[str]) -> None:
    answer = run(odd_plan, *argv)
    assert answer.returncode == 2
    assert "commands: classpath" in answer.stderr


def test_the_users_path_stays_behind_ours(odd_plan: ClusterPlan) -> None:
    answer = run(odd_plan, "sh", "-c", "command -v hdfs; command -v ls; echo $HADOOP_CONF_DIR")
    hdfs, ls, conf = answer.stdout.splitlines()
    assert hdfs == str(odd_plan.paths.bin / "hdfs")
    assert ls.endswith("/ls")
    assert conf == str(odd_plan.paths.conf)


def test_hadoop_home_leads_to_the_configuration(odd_plan: ClusterPlan) -> None:
    etc = odd_plan.paths.hadoop_home / "etc" / "hadoop"
    assert etc.resolve() == odd_plan.paths.conf.resolve()


def test_without_zookeeper_there_is_no_address(make_plan: Callable[..., ClusterPlan]) -> None:
    assert environment(make_plan())["YARNAM_ZOOKEEPER"] == "127.9.0.1:2181"
    assert "YARNAM_ZOOKEEPER" not in environment(make_plan(ClusterShape(zookeeper=False)))
