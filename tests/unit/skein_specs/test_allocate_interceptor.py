"""The jar in front of the AM's heartbeats: made of these sources, and what its classes do."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from hdfs_utils.config.configuration import Property
from hdfs_utils.errors import MalformedData
from skein_specs.interceptor import (
    ENV_RPC_CLASS,
    HADOOPS_RPC_CLASS,
    RPC_KEY,
    interceptor_properties,
    why_not_intercepted,
)
from tools.build_jars import INTERCEPTOR
from yarnam.adapters.skein.response_log import (
    CompletedContainer,
    InterceptorFailed,
    PreemptionNotice,
    Response,
    ResponseLog,
    UpdatedNode,
)
from yarnam.client.site import cache_dir
from yarnam.cluster.software.jar_cache import HADOOP_VERSION
from yarnam.core.model.ids import ContainerId

JARS = cache_dir(os.environ) / f"hadoop-{HADOOP_VERSION}"
HAS_JDK = bool(shutil.which("javac") and shutil.which("java") and JARS.is_dir())
SCENARIO = Path(__file__).parent / "java" / "yarnam" / "InterceptorScenario.java"

needs_jdk = pytest.mark.skipif(not HAS_JDK, reason="needs a JDK and the embedded cluster's jars")


@needs_jdk
def test_heartbeats_that_matter_are_sent_and_what_they_bring_is_written(tmp_path: Path) -> None:
    class_path = f"{INTERCEPTOR.file}:{tmp_path}:{JARS}/*"
    command = ["javac", "-proc:none", "-nowarn", "-Xlint:none", "-cp", class_path]
    subprocess.run([*command, "-d", str(tmp_path), str(SCENARIO)], check=True)
    file = tmp_path / "responses.jsonl"
    done = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-cp", class_path,
         "yarnam.InterceptorScenario", str(file)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.stdout == "done\n", done.stderr
    name = "container_1700000000000_0001_01_00000"
    first, second = ContainerId(f"{name}2"), ContainerId(f"{name}3")
    assert read(file) == [
        PreemptionNotice((first, second), ()),
        CompletedContainer(first, -102, 'taken "now"\nä??'),
        UpdatedNode("n1:8041", "DECOMMISSIONING", 40.0),
        InterceptorFailed("java.lang.IllegalStateException: broken"),
    ]
    assert file.stat().st_mode & 0o777 == 0o600
    full = tmp_path / "responses.jsonl-full"
    assert full.stat().st_size < 1 << 20
    assert 1_000_000 < full.with_name(f"{full.name}.1").stat().st_size <= 1 << 20
    assert all(isinstance(one, CompletedContainer) for one in read(full))


def read(file: Path) -> list[Response | MalformedData]:
    with closing(ResponseLog(file)) as log:
        return log.read()


def test_only_skeins_jvm_gets_the_class() -> None:
    """Who reads the configuration without the variable gets Hadoop's own."""
    made = interceptor_properties([Property("yarn.am.x", "1")])
    assert made[RPC_KEY] == f"${{env.{ENV_RPC_CLASS}:-{HADOOPS_RPC_CLASS}}}"
    assert made["yarnam.am.heartbeat.idle-interval-ms"] == "3000"


def test_a_site_that_expires_silent_ams_soon_hears_of_ours_more_often() -> None:
    expiry = Property("yarn.am.liveness-monitor.expiry-interval-ms", "9000")
    made = interceptor_properties([expiry])
    assert made["yarnam.am.heartbeat.idle-interval-ms"] == "900"


def test_a_site_with_an_rpc_class_of_its_own_keeps_it() -> None:
    own = [Property(RPC_KEY, "com.example.Rpc")]
    assert why_not_intercepted(own) == "yarn.ipc.rpc.class is com.example.Rpc here"
    assert not interceptor_properties(own)
    assert not why_not_intercepted([Property(RPC_KEY, HADOOPS_RPC_CLASS)])
