"""The Skein application of a job: what Skein and YARN are told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import skein

from skein_specs import LocalizedFile, am_script, application_spec, launch_script
from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.job_spec import (
    AmSpec,
    ContainerImage,
    ContainerRuntime,
    EnvironmentSpec,
    JobSpec,
    RoleSpec,
)
from yarnam.core.model.plans import LocalityLevel, Target
from yarnam.core.model.resources import Resources
from yarnam.wire.records import JobRecord

SIZE = Resources(2048, 2, 4)
TARGETS = (
    Target("w-n0", "w", LocalityLevel.NODE, SIZE, nodes=(NodeId("n1"), NodeId("n2"))),
    Target("w-rack1", "w", LocalityLevel.RACK, SIZE, racks=(RackId("/rack1"),)),
    Target("w-any", "w", LocalityLevel.ANY, SIZE),
)
RECORD = JobRecord(
    job=JobSpec(
        name="train",
        queue="root.dl",
        user="u",
        framework="command",
        roles=(RoleSpec("w", 2, SIZE, ("x",)),),
        am=AmSpec(resources=Resources(1536, 1, 0), attempts=3),
    ),
    targets=TARGETS,
    job_dir="hdfs://nn:8020/jobs/1",
    submitted_at_s=1.0,
    yarnam_version="0",
)
FILES = {"yarnam-job.json": LocalizedFile("hdfs://nn:8020/jobs/1/job.json")}
ARCHIVE = LocalizedFile("hdfs://nn:8020/rt.tar.gz", "archive", "PRIVATE", 10, 20)


@pytest.fixture(scope="module")
def spec() -> skein.ApplicationSpec:
    security = skein.Security(cert_bytes=b"cert", key_bytes=b"key")
    return application_spec(
        RECORD,
        am_files=FILES,
        task_files={**FILES, "yarnam-runtime": ARCHIVE},
        security=security,
        tags=["yarnam-job-1"],
        node_python="/opt/python3",
        client_python="/home/u/python3.11",
        python_version="3.11",
    )


def test_skein_itself_takes_it(spec: skein.ApplicationSpec) -> None:
    assert skein.ApplicationSpec.from_protobuf(spec.to_protobuf()).name == "train"


def test_nothing_is_asked_for_restarted_or_fatal_by_itself(spec: skein.ApplicationSpec) -> None:
    for service in spec.services.values():
        assert (service.instances, service.max_restarts) == (0, 0)
        assert service.allow_failures is True
        assert service.relax_locality is False
        assert not service.depends


def test_one_service_per_target_with_its_own_locality(spec: skein.ApplicationSpec) -> None:
    places = {name: (s.nodes, s.racks) for name, s in spec.services.items()}
    assert places == {
        "w-n0": (["n1", "n2"], []),
        "w-rack1": ([], ["/rack1"]),
        "w-any": ([], []),
    }
    assert {s.resources.gpus for s in spec.services.values()} == {4}
    assert {name: s.env["YARNAM_SERVICE"] for name, s in spec.services.items()} == {
        name: name for name in places
    }


def test_services_share_no_mutable_part(spec: skein.ApplicationSpec) -> None:
    first, second, _ = spec.services.values()
    assert first.env is not second.env
    assert first.files is not second.files
    assert first.files["yarnam-runtime"] is not second.files["yarnam-runtime"]


def test_the_master_carries_the_repairs(spec: skein.ApplicationSpec) -> None:
    master = spec.master
    assert master.env["HADOOP_CONF_DIR"] == "./hconf"
    options = master.env["JDK_JAVA_OPTIONS"].split()
    assert "--add-opens=java.base/java.util=ALL-UNNAMED" in options
    assert "-XX:TieredStopAtLevel=1" in options
    assert master.env["YARNAM_JOB_DIR"] == "hdfs://nn:8020/jobs/1"
    assert master.env["YARNAM_NODE_PYTHON"] == "/opt/python3"
    assert master.env["YARNAM_CLIENT_PYTHON"] == "/home/u/python3.11"
    assert master.resources.memory == 1536
    assert master.security.cert_bytes == b"cert"
    assert (spec.max_attempts, spec.queue, spec.tags) == (3, "root.dl", {"yarnam", "yarnam-job-1"})


@pytest.mark.parametrize("runtime", [*ContainerRuntime])
def test_an_image_is_for_the_tasks_containers_alone(runtime: ContainerRuntime) -> None:
    """The launch context byte for byte, as YARN's runtimes read it."""
    image = ContainerImage(runtime, "registry.example/t/train:1", ("/d:/d:ro", "/s:/tmp/s:rw"))
    job = replace(RECORD.job, environment=EnvironmentSpec(image=image))
    made = application_spec(
        replace(RECORD, job=job),
        am_files=FILES,
        task_files={**FILES, "yarnam-runtime": ARCHIVE},
        security=skein.Security(cert_bytes=b"cert", key_bytes=b"key"),
    )
    kind = runtime.value
    wanted = {
        "YARN_CONTAINER_RUNTIME_TYPE": kind,
        f"YARN_CONTAINER_RUNTIME_{kind.upper()}_IMAGE": "registry.example/t/train:1",
        f"YARN_CONTAINER_RUNTIME_{kind.upper()}_MOUNTS": "/d:/d:ro,/s:/tmp/s:rw",
    }
    message = made.to_protobuf()
    for service in message.services.values():
        found = {n: v for n, v in service.env.items() if n.startswith("YARN_CONTAINER_RUNTIME")}
        assert found == wanted
    assert not [name for name in message.master.env if name.startswith("YARN_CONTAINER_RUNTIME")]


def test_files_keep_kind_visibility_size_and_time(spec: skein.ApplicationSpec) -> None:
    file = spec.services["w-any"].files["yarnam-runtime"]
    assert (str(file.type), str(file.visibility)) == ("ARCHIVE", "PRIVATE")
    assert (file.size, file.timestamp) == (10, 20)
    assert str(spec.master.files["yarnam-job.json"].type) == "FILE"


# ---- the launch script ------------------------------------------------------------------------


def launch(tmp_path: Path, script: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", **env},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def runtime_with(tmp_path: Path, module: str) -> None:
    lib = tmp_path / "yarnam-runtime" / "lib"
    lib.mkdir(parents=True)
    (lib / f"{module}.py").write_text(
        "import os, socket, sys\n"
        "print(os.getpid(), os.environ['HADOOP_CONF_DIR'], os.environ.get('JDK_JAVA_OPTIONS'))\n"
        "sys.exit(7)\n"
    )


HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"


def test_it_becomes_python_with_the_shipped_packages(tmp_path: Path) -> None:
    runtime_with(tmp_path, "fake_am")
    script = "echo $$\n" + launch_script("fake_am", HERE)
    done = launch(tmp_path, script, YARNAM_NODE_PYTHON=sys.executable, JDK_JAVA_OPTIONS="-x")
    shell, said = done.stdout.splitlines()
    # The same process id: SIGTERM for the script reaches Python, and nothing is left behind.
    assert said == f"{shell} {tmp_path}/hconf None"
    assert done.returncode == 7


def test_files_that_the_user_named_stand_for_no_module(tmp_path: Path) -> None:
    """They lie in the directory in which AM and agents start."""
    runtime_with(tmp_path, "fake_am")
    for name in ("runpy", "os", "socket", "sitecustomize", "fake_am"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a file of the user')\n")
    script = launch_script("fake_am", HERE)
    done = launch(tmp_path, script, YARNAM_NODE_PYTHON=sys.executable, PYTHONPATH=str(tmp_path))
    assert done.returncode == 7, done.stderr


def test_a_python_of_another_version_is_passed_over(tmp_path: Path) -> None:
    runtime_with(tmp_path, "fake_am")
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    (tmp_path / f"python{HERE}").symlink_to(sys.executable)
    path = f"{tmp_path}:/usr/bin:/bin"
    done = launch(
        tmp_path, launch_script("fake_am", HERE), YARNAM_NODE_PYTHON=str(other), PATH=path
    )
    assert done.returncode == 7, done.stderr


def test_a_full_path_with_the_version_is_not_asked(tmp_path: Path) -> None:
    """Its first start is the one that counts."""
    runtime_with(tmp_path, "fake_am")
    named = tmp_path / f"python{HERE}"
    starts = tmp_path / "starts"
    named.write_text(f'#!/bin/sh\necho start >> {starts}\nexec {sys.executable} "$@"\n')
    named.chmod(0o755)
    done = launch(tmp_path, launch_script("fake_am", HERE), YARNAM_NODE_PYTHON=str(named))
    assert done.returncode == 7, done.stderr
    assert starts.read_text() == "start\n"


def test_no_python_of_that_version_is_said_with_what_was_tried(tmp_path: Path) -> None:
    done = launch(tmp_path, launch_script("fake_am", "9.9"), YARNAM_NODE_PYTHON="/opt/none")
    assert done.returncode == 78
    assert "no Python 9.9 on" in done.stderr
    assert "/opt/none" in done.stderr
    assert os.uname().nodename in done.stderr


def test_a_user_s_file_stands_for_no_module(tmp_path: Path) -> None:
    """The container's directory holds what the user shipped, under the user's names."""
    runtime_with(tmp_path, "fake_am")
    for name in ("socket", "json", "runpy", "fake_am"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(99)\n")
    script = launch_script("fake_am", HERE)
    done = launch(tmp_path, script, YARNAM_NODE_PYTHON=sys.executable)
    assert done.returncode == 7, done.stderr


JAVA = """
import subprocess, sys, time
child = subprocess.Popen(["bash", sys.argv[1]], stdin=subprocess.PIPE)
print(child.wait(), flush=True)
"""
"""Starts the script as Skein's Java does, and says how it has ended."""


def start_by_java(tmp_path: Path, ends_with: str) -> subprocess.CompletedProcess[str]:
    lib = tmp_path / "yarnam-runtime" / "lib"
    lib.mkdir(parents=True)
    (lib / "fake_am.py").write_text(f"import os, sys\n{ends_with}\n")
    script = tmp_path / ".skein.sh"
    script.write_text(am_script("fake_am", HERE))
    return subprocess.run(
        [sys.executable, "-c", JAVA, str(script)],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "YARNAM_NODE_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_java_goes_on_when_the_am_has_ended_well(tmp_path: Path) -> None:
    done = start_by_java(tmp_path, "sys.exit(0)")
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


def test_the_am_in_python_alone_maps_its_larger_blocks(
    tmp_path: Path, spec: skein.ApplicationSpec
) -> None:
    """Without it a gang of 1,000 tasks takes 10 MB more (tests/benchmarks/test_large_gang.py)."""
    limit = 'os.environ["MALLOC_MMAP_THRESHOLD_"]'
    done = start_by_java(tmp_path, f'sys.exit({limit} != "8192")')
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
    assert "MALLOC_MMAP_THRESHOLD_" not in spec.master.env


@pytest.mark.parametrize("ends_with", ["sys.exit(7)", "os.kill(os.getpid(), 9)", "oops"])
def test_java_ends_with_an_am_that_fails(tmp_path: Path, ends_with: str) -> None:
    """Otherwise it would tell YARN, in the last attempt by number, that the job has failed."""
    done = start_by_java(tmp_path, ends_with)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "")
    assert "YARN decides by am.attempts and am.attempts_interval" in done.stderr


def test_java_ends_where_there_is_no_python_for_the_am(tmp_path: Path) -> None:
    script = tmp_path / ".skein.sh"
    script.write_text(am_script("fake_am", "9.9"))
    done = subprocess.run(
        [sys.executable, "-c", JAVA, str(script)], capture_output=True, text=True, timeout=30,
        check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL
    assert "no Python 9.9 on" in done.stderr


def test_nobody_is_ended_when_java_has_gone_already(tmp_path: Path) -> None:
    """Its process id may be another's by now: here it is that of one who has taken its place."""
    runtime_with(tmp_path, "fake_am")
    script = am_script("fake_am", HERE).replace("$PPID", "$taken")
    with subprocess.Popen(["sleep", "30"]) as other:
        done = launch(tmp_path, f"taken={other.pid}\n{script}", YARNAM_NODE_PYTHON=sys.executable)
        assert other.poll() is None
        other.kill()
    assert done.returncode == 7


class ClientPython:
    """A file at the path that Python has on the submitting machine; it says that it was run."""

    def __init__(self, directory: Path, home: str = "conda") -> None:
        self.home = directory / "scratch" / home
        self.file = self.home / "bin" / f"python{HERE}"
        self.file.parent.mkdir(parents=True, mode=0o755)
        self.file.write_text(f'#!/bin/sh\necho taken >&2\nexec {sys.executable} "$@"\n')
        self.file.chmod(0o755)
        runtime_with(directory, "fake_am")
        on_path = directory / "on-path"
        on_path.mkdir()
        (on_path / f"python{HERE}").symlink_to(sys.executable)
        self._path = f"{on_path}:/usr/bin:/bin"
        self._directory = directory

    def launch(self) -> subprocess.CompletedProcess[str]:
        script = launch_script("fake_am", HERE)
        given = {"YARNAM_CLIENT_PYTHON": str(self.file), "PATH": self._path}
        done = launch(self._directory, script, **given)
        assert done.returncode == 7, done.stderr
        return done


@pytest.fixture
def client_python(tmp_path: Path) -> ClientPython:
    return ClientPython(tmp_path)


def test_the_client_s_python_is_taken_where_only_we_can_write(client_python: ClientPython) -> None:
    client_python.home.parent.chmod(0o1777)  # sticky: what is ours there stays ours
    assert client_python.launch().stderr == "taken\n"


@pytest.mark.parametrize("mode", [0o777, 0o775])
@pytest.mark.parametrize("part", ["file", "directory", "parent"])
def test_the_client_s_python_is_not_taken_where_others_can_write(
    client_python: ClientPython, part: str, mode: int
) -> None:
    """On this node another user may have put it there."""
    home = client_python.home
    open_to_all = {"file": client_python.file, "directory": home / "bin", "parent": home.parent}
    open_to_all[part].chmod(mode)
    said = client_python.launch().stderr
    assert "taken" not in said
    assert f"others may write to {open_to_all[part]}." in said
    assert "YARNAM_NODE_PYTHON" in said


def test_the_client_s_python_is_not_taken_through_a_link(client_python: ClientPython) -> None:
    """The client resolved its links: one on the node leads to something else."""
    real = client_python.home.rename(client_python.home.with_name("other"))
    client_python.home.symlink_to(real)
    said = client_python.launch().stderr
    assert "taken" not in said
    assert f"{client_python.home} is a symbolic link." in said


@pytest.mark.parametrize("name", ["con\nda", "con\n0 41ed /da", "con\tda", "con\x1bda", "con\r"])
def test_the_client_s_python_is_not_taken_under_a_name_that_breaks_rows(
    tmp_path: Path, name: str
) -> None:
    found = ClientPython(tmp_path, name)
    found.home.parent.chmod(0o777)
    said = found.launch().stderr
    assert "taken" not in said
    assert "its path has a control character" in said


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory to another user")
def test_the_client_s_python_is_not_taken_from_another_user(client_python: ClientPython) -> None:
    os.chown(client_python.home, 65534, -1)
    said = client_python.launch().stderr
    assert "taken" not in said
    assert f"{client_python.home} belongs to user 65534." in said
