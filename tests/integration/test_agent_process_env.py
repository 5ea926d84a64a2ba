"""What the user's process finds: arguments, environment, files, Python, metrics."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.integration.agent_world import Container, World, shipped, small_job, world
from yarnam.core.model.job_spec import EnvironmentSpec, ShippedFile
from yarnam.core.model.metrics import MEASURED_STEPS, STEP_S
from yarnam.wire.pb import yarnam_pb2 as pb

pytestmark = [pytest.mark.grpc, pytest.mark.asyncio]

DUMP = (
    "import json, os, sys\n"
    "print(json.dumps({'argv': [list(os.fsencode(a)) for a in sys.argv[1:]],"
    " 'env': dict(os.environ), 'cwd': os.getcwd(), 'files': sorted(os.listdir()),"
    " 'python': sys.executable, 'prefix': sys.prefix, 'version': sys.version_info[:2],"
    " 'fds': len(os.listdir('/proc/self/fd'))}))\n"
)


async def dump(here: World, container: Container) -> Any:
    container.start()
    await here.am.until(container.ask, pb.READY)
    await here.am.launch(container.job, [container.ask])
    report = await here.am.until(container.ask, pb.EXITED)
    assert report.processes[0].kind == "ok", list(report.processes[0].last_lines)
    return json.loads(container.log())


async def test_arguments_arrive_byte_for_byte(tmp_path: Path) -> None:
    hard = [
        "",
        " a  b ",
        "$HOME `id` $(id)",
        "'\"\\",
        "line\nbreak\ttab",
        "ünï☃𝄞",
        "*?[a]",
        "-c",
        "%s",
    ]
    job = small_job([sys.executable, "-c", DUMP, *hard])
    for number, env in enumerate(({}, {"LC_ALL": "C"}, {"LC_ALL": "POSIX", "PYTHONUTF8": "0"})):
        async with world(tmp_path) as here:
            seen = await dump(here, here.container(job, env=env, ask=f"a{number + 1}.worker.0"))
            assert [bytes(text) for text in seen["argv"]] == [text.encode() for text in hard]
        tmp_path = tmp_path / "next"
        tmp_path.mkdir()


async def test_environment_is_the_jobs_and_holds_no_key_to_the_cluster(tmp_path: Path) -> None:
    job = small_job(
        [sys.executable, "-c", DUMP],
        env=(("A", "job"), ("B", "job"), ("TOKEN", "")),
        role_env=(("B", "role"), ("YARNAM_RANK", "99")),
        secret_env=("TOKEN",),
    )
    env = {
        "SKEIN_APPMASTER_ADDRESS": "x:1",
        "HADOOP_TOKEN_FILE_LOCATION": "/tokens",
        "HADOOP_CONF_DIR": "/conf",
        "A": "container",
        "C": "container",
        "YARNAM_NODE_GPUS": "sim:0",
    }
    async with world(tmp_path) as here:
        container = here.container(job, env=env, sdk=True)
        (container.directory / "yarnam-secrets.json").write_text('{"TOKEN": "hush"}')
        seen = await dump(here, container)
        got = seen["env"]
        assert (got["A"], got["B"], got["C"]) == ("job", "role", "container")
        assert got["TOKEN"] == "hush"
        assert got["YARNAM_RANK"] == "0", "the rendezvous wins"
        assert got["HADOOP_TOKEN_FILE_LOCATION"] == "/tokens"
        assert got["HADOOP_CONF_DIR"] == "/conf"
        assert got["PYTHONUNBUFFERED"] == "1"
        assert got["CUDA_VISIBLE_DEVICES"] == ""
        assert not [name for name in got if name.startswith("SKEIN_")]
        assert not {"YARNAM_AM_ADDRESS", "YARNAM_NODE_GPUS"} & got.keys()
        work = container.directory / "work"
        assert got["PYTHONPATH"] == f"{work}:{container.directory}/yarnam-runtime/sdk"
        assert seen["cwd"] == str(work)
        assert seen["fds"] <= 4, "no descriptor of the agent's comes along"
        assert "hush" not in container.agent_log()


async def test_files_and_code_lie_in_the_working_directory(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        container = here.container(small_job(["true"]))
        shipped(container, "config.json", "shipped")
        code = container.directory / "code"
        (code / "package").mkdir(parents=True)
        (code / "package" / "__init__.py").write_text("word = 'from the code'")
        (code / "config.json").write_text("of the code")
        script = f"import package; {DUMP}"
        (code / "train.py").write_text(script.replace("'cwd'", "'word': package.word, 'cwd'"))
        container.job = small_job(
            ["python", "train.py"],
            files=(
                ShippedFile("config.json", "hdfs://x/config.json"),
                ShippedFile("code", "hdfs://x/code.tar.gz", is_archive=True),
            ),
            environment=EnvironmentSpec(python=sys.executable),
        )
        container.write_job()
        seen = await dump(here, container)
        assert seen["word"] == "from the code"
        assert {"config.json", "code", "package", "train.py"} <= set(seen["files"])
        assert (container.directory / "work" / "config.json").read_text() == "shipped"


async def test_python_is_the_jobs_own_with_its_venv(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    base = getattr(sys, "_base_executable", sys.executable)
    subprocess.run([base, "-m", "venv", "--without-pip", str(venv)], check=True)
    inner = "import sys; print(sys.prefix)"
    script = (
        f'{DUMP}\nimport subprocess\nsubprocess.run(["python3", "-c", {inner!r}], check=True)\n'
    )
    async with world(tmp_path) as here:
        job = small_job(
            ["python", "-c", script], environment=EnvironmentSpec(python=str(venv / "bin/python"))
        )
        container = here.container(job).start()
        await here.am.until(container.ask, pb.READY)
        await here.am.launch(job, [container.ask])
        report = await here.am.until(container.ask, pb.EXITED)
        assert report.processes[0].kind == "ok", list(report.processes[0].last_lines)
        first, second = container.log().decode().splitlines()
        seen = json.loads(first)
        assert seen["prefix"] == str(venv)
        assert seen["env"]["YARNAM_PYTHON"] == str(venv / "bin/python")
        assert second == str(venv), "python3 of a shell or a child is the same"


async def test_python_in_an_unpacked_archive(tmp_path: Path) -> None:
    base = getattr(sys, "_base_executable", sys.executable)
    async with world(tmp_path) as here:
        container = here.container(small_job(["true"]))
        venv = container.directory / "environment" / "packed"
        subprocess.run([base, "-m", "venv", "--without-pip", str(venv)], check=True)
        environment = EnvironmentSpec(python="bin/python", archive="hdfs://x/packed.tar.gz")
        container.job = small_job(["python3", "-c", DUMP], environment=environment)
        container.write_job()
        seen = await dump(here, container)
        assert seen["prefix"] == str(venv)


async def test_missing_python_is_named(tmp_path: Path) -> None:
    job = small_job(["python", "x.py"], environment=EnvironmentSpec(python="/opt/none/python"))
    async with world(tmp_path) as here:
        container = here.container(job).start()
        await here.am.until(container.ask, pb.READY)
        await here.am.launch(job, [container.ask])
        report = await here.am.until(container.ask, pb.EXITED)
        assert report.processes[0].kind == "command-not-found"
        assert "/opt/none/python is not an executable file" in report.processes[0].last_lines[0]


async def test_metrics_of_the_sdk_come_with_the_reports(tmp_path: Path) -> None:
    program = (
        "import time\nfrom yarnam import train\n"
        "for step in range(1, 31):\n"
        "    train.report(step=step, total_steps=30, loss=1 / step, rate='no number', acc=0.5)\n"
        "    time.sleep(0.1)\n"
    )
    job = small_job([sys.executable, "-c", program], processes=2)
    async with world(tmp_path) as here:
        container = here.container(job, sdk=True).start()
        await here.am.until(container.ask, pb.READY)
        await here.am.launch(job, [container.ask])
        exited = await here.am.until(container.ask, pb.EXITED)
        for process in exited.processes:
            assert (process.metrics.step, process.metrics.total_steps) == (30, 30)
            values = dict(process.metrics.values)
            assert values.pop(STEP_S) == pytest.approx(0.1, rel=0.5)
            assert values.pop(MEASURED_STEPS) == 29
            assert values == {"loss": pytest.approx(1 / 30), "acc": 0.5}
        reports = here.am.mailbox.reports[container.ask]
        on_the_way = [report for report in reports if report.state == pb.STARTED]
        # 3 s of training: the first, then one a second at most.
        assert 2 <= len(on_the_way) <= 6, len(on_the_way)
        steps = [report.processes[0].metrics.step for report in on_the_way]
        assert steps == sorted(steps)


async def test_planners_shape_wins_over_the_roles(tmp_path: Path) -> None:
    from yarnam.core.model.plans import LocalityLevel, Target
    from yarnam.core.model.resources import Resources
    from yarnam.wire.codec import encode
    from yarnam.wire.records import JobRecord

    job = replace(small_job(["true"], gpus=1), flexible_shape=True)
    target = Target("w-2", "worker", LocalityLevel.ANY, Resources(512, 1, 3), processes_per_task=3)
    async with world(tmp_path) as here:
        env = {"YARNAM_NODE_GPUS": "sim:0,1,2,3", "YARNAM_SERVICE": "w-2"}
        container = here.container(job, env=env)
        record = JobRecord(job, (target,), "hdfs://x/job", 0.0, "0")
        (container.directory / "yarnam-job.json").write_bytes(encode(record))
        container.start()
        ready = await here.am.until(container.ask, pb.READY)
        assert list(ready.gpu_ids) == ["0", "1", "2"]
