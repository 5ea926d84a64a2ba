"""Submit: what lies on HDFS and what YARN is asked; and that a failed one leaves nothing."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import time
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hdfs_utils.errors import QuotaExceeded
from hdfs_utils.protocols import gssapi
from tests.fakes.files import fail_on
from tests.unit.client.world import World, job_spec
from tests.unit.hdfs_utils.protocols.test_keytab import keytab, record
from yarnam.adapters.http_identity import HttpIdentity
from yarnam.client.environments import packed_environment
from yarnam.client.submit import upload
from yarnam.core.model.job_spec import (
    CheckpointSpec,
    EnvironmentSpec,
    JobSpec,
    PackedFrom,
    PackSource,
    RetrySpec,
    ShippedFile,
)
from yarnam.core.model.outcomes import FailureClass, FailureRule, RetryAction
from yarnam.errors import BadConfig, BadSpec, Blame, NoPermission, Unavailable, YarnamError
from yarnam.wire.codec import decode
from yarnam.wire.credentials import split
from yarnam.wire.records import JobRecord


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def submitted(world: World, job: JobSpec) -> tuple[Any, str]:
    handle = world.client.submit(job)
    (spec,) = world.launcher.submitted
    return spec, handle.directory


def test_the_job_record_is_what_was_asked_for(world: World) -> None:
    _, directory = submitted(world, job_spec())
    record = decode(world.files.read_bytes(f"{directory}/job.json"), JobRecord)
    assert len(record.job.pre_run.key) == 64, "the identity of the program, with or without pre-run"
    assert replace(record.job, pre_run=job_spec().pre_run) == job_spec()
    assert record.job_dir == directory
    assert record.rm_url == "http://rm.example:8088"
    assert record.targets


def test_the_administrators_rules_of_failures_come_after_the_jobs_own(world: World) -> None:
    text = "rules:\n- {id: licences, class: communication-error, patterns: [no licence is free]}\n"
    (world.site.conf_dir / "failure-rules.yaml").write_text(text)
    own = FailureRule("own", FailureClass.KILLED, RetryAction.NEVER, Blame.USER, exit_codes=(9,))
    job = replace(job_spec(), retry=RetrySpec(rules=(own,)))
    _, directory = submitted(world, job)
    record = decode(world.files.read_bytes(f"{directory}/job.json"), JobRecord)
    assert [rule.id for rule in record.job.retry.rules] == ["own", "licences"]


def test_the_directory_is_private_and_the_credentials_are_the_jobs_own(world: World) -> None:
    _, one = submitted(world, job_spec())
    assert world.files.stat(one).permission == 0o700
    pem = world.files.read_bytes(f"{one}/credentials.pem")
    assert all(split(pem))
    two = world.client.submit(job_spec()).directory
    assert two != one
    assert world.files.read_bytes(f"{two}/credentials.pem") != pem


def test_yarn_gets_the_tags_that_lead_back(world: World) -> None:
    spec, directory = submitted(world, job_spec(tags=("mine",)))
    key = directory.rpartition("/")[2]
    assert set(spec.tags) == {"yarnam", "mine", f"yarnam-job-{key}"}
    application = world.rm.applications()[0].application
    assert world.client.job(application).directory == directory
    world.rm.apps.clear()  # the ResourceManager forgets
    assert world.client.job(application).directory == directory


def test_what_the_am_and_the_tasks_get(world: World, tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text("print(1)")
    spec, _ = submitted(world, job_spec(files=(ShippedFile("code", str(code)),)))
    common = {
        "yarnam-job.json",
        "yarnam-credentials.pem",
        "yarnam-runtime",
        "yarnam-python",
        "hconf",
    }
    interceptor = "yarnam-allocate-interceptor.jar"
    assert set(spec.master.files) == common | {interceptor}
    assert str(spec.master.files[interceptor].visibility) == "PRIVATE"
    assert spec.master.env["YARNAM_RPC_CLASS"] == "yarnam.AllocateInterceptor"
    # An idle cluster: the first rung's containers need not wait for the AM's Python.
    assert sum(service.instances for service in spec.services.values()) == job_spec().tasks
    for service in spec.services.values():
        assert set(service.files) == common | {"code"}
        runtime = service.files["yarnam-runtime"]
        assert (str(runtime.type), str(runtime.visibility)) == ("ARCHIVE", "PRIVATE")
        # Known sizes and times: Skein asks the NameNode once per file and service otherwise.
        assert all(file.size and file.timestamp for file in service.files.values())


def test_a_site_with_an_rpc_class_of_its_own_gets_no_interceptor(world: World) -> None:
    file = world.site.conf_dir / "yarn-site.xml"
    own = "<property><name>yarn.ipc.rpc.class</name><value>com.example.Rpc</value></property>"
    file.write_text(file.read_text().replace("</configuration>", f"{own}</configuration>"))
    spec, _ = submitted(world, job_spec())
    assert "yarnam-allocate-interceptor.jar" not in spec.master.files
    assert "YARNAM_RPC_CLASS" not in spec.master.env


def test_code_is_shipped_as_an_archive_named_by_its_content(world: World, tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text("print(1)")
    _, directory = submitted(world, job_spec(files=(ShippedFile("code", str(code)),)))
    (file,) = decode(world.files.read_bytes(f"{directory}/job.json"), JobRecord).job.files
    assert file.is_archive
    assert file.source.startswith(f"{directory}/files/0-{file.sha256[:16]}")
    with tarfile.open(fileobj=io.BytesIO(world.files.read_bytes(file.source))) as tar:
        assert tar.getnames() == ["train.py"]


def test_whatever_has_the_same_content_is_uploaded_to_a_place_of_its_own(
    world: World, tmp_path: Path
) -> None:
    """YARN refuses a file that was written again after the request named its time."""
    archive = tmp_path / "env.tar.gz"
    with tarfile.open(archive, "w:gz"):
        pass
    paths = [tmp_path / "a.txt", tmp_path / "b.txt", tmp_path / "x", tmp_path / "y"]
    for path in paths[:2]:
        path.write_text("same")
    for path in paths[2:]:
        path.mkdir()
        (path / "train.py").write_text("pass")
    zips = [tmp_path / "one.tar.gz", tmp_path / "two.tar.gz"]
    for path in zips:
        path.write_bytes(archive.read_bytes())
    files = (
        *(ShippedFile(path.name, str(path)) for path in paths),
        *(ShippedFile(path.name, str(path), is_archive=True) for path in zips),
        *(ShippedFile(f"raw-{path.name}", str(path)) for path in zips),
    )
    environment = EnvironmentSpec("python3", str(archive))
    _, directory = submitted(world, job_spec(files=files, environment=environment))
    (spec,) = world.launcher.submitted
    record = decode(world.files.read_bytes(f"{directory}/job.json"), JobRecord)
    sources = [file.source for file in record.job.files]
    assert len({*sources, record.job.environment.archive}) == len(files) + 1
    asked = [file for service in spec.services.values() for file in service.files.values()]
    for file in asked:
        if file.source in sources:
            assert file.timestamp == world.files.stat(file.source).mtime_ms, file.source
    assert {file.source for file in asked} >= set(sources)


def test_the_hadoop_configuration_knows_the_racks(world: World) -> None:
    _, directory = submitted(world, job_spec())
    with zipfile.ZipFile(io.BytesIO(world.files.read_bytes(f"{directory}/hconf.zip"))) as conf:
        assert b"n3 /rack2" in conf.read("topology.table")
        assert "yarn-site.xml" in conf.namelist()


def test_what_is_named_by_content_is_uploaded_once(world: World, tmp_path: Path) -> None:
    archive = tmp_path / "env.tar.gz"
    archive.write_bytes(b"an environment")
    job = job_spec(environment=EnvironmentSpec("bin/python", str(archive)))
    said: list[str] = []
    world.client._report = said.append
    spec, directory = submitted(world, job)
    assert sum("once" in line for line in said) == 3  # runtime, interpreter and environment
    source = decode(world.files.read_bytes(f"{directory}/job.json"), JobRecord).job.environment
    assert "/.yarnam/environments/" in source.archive
    assert all("environment" in service.files for service in spec.services.values())
    assert "environment" not in spec.master.files
    said.clear()
    world.client.submit(job)
    assert not any("once" in line for line in said)


def test_an_environment_on_hdfs_is_used_in_place(world: World) -> None:
    world.files.write_bytes("/envs/env.tar.gz", b"an environment")
    job = job_spec(environment=EnvironmentSpec("bin/python", "hdfs://memory/envs/env.tar.gz"))
    spec, _ = submitted(world, job)
    service = next(iter(spec.services.values()))
    assert service.files["environment"].source == "hdfs://memory/envs/env.tar.gz"


def test_values_of_secrets_go_nowhere_but_into_the_private_file(world: World) -> None:
    job = job_spec(env=(("TOKEN", "s3cret-value"), ("PLAIN", "shown")), secret_env=("TOKEN",))
    seen: dict[str, Any] = {}

    def look(spec: Any) -> None:
        for service in spec.services.values():
            source = Path(service.files["yarnam-secrets.json"].source.removeprefix("file://"))
            seen["content"] = json.loads(source.read_text())
            seen["mode"] = source.stat().st_mode & 0o777
            seen["path"] = source
        seen["spec"] = str(spec.to_dict())

    world.launcher.on_submit = look
    spec, _ = submitted(world, job)
    assert seen["content"] == {"TOKEN": "s3cret-value"}
    assert seen["mode"] == 0o600
    assert not seen["path"].exists()
    assert "yarnam-secrets.json" not in spec.master.files
    assert "s3cret-value" not in seen["spec"]
    for path in world.left_on_hdfs():
        assert b"s3cret-value" not in world.files.read_bytes(path)


def test_a_secret_with_two_values_is_refused(world: World) -> None:
    role = job_spec().roles[0]
    from dataclasses import replace

    roles = (replace(role, env=(("TOKEN", "two"),)),)
    with pytest.raises(BadSpec, match="TOKEN has two values"):
        world.client.submit(job_spec(env=(("TOKEN", "one"),), roles=roles, secret_env=("TOKEN",)))
    assert world.left_on_hdfs() == []


def test_the_driver_starts_at_once_and_is_always_let_go(world: World) -> None:
    submitted(world, job_spec())
    assert world.launcher.started
    assert world.launcher.closed.is_set()


# ---- failures leave nothing ----------------------------------------------------------------------


def failed(world: World, kind: type[BaseException], job: JobSpec | None = None) -> None:
    with pytest.raises(kind):
        world.client.submit(job or job_spec())
    assert world.left_on_hdfs() == []
    assert not world.files.list("/user/me/.yarnam/jobs")
    assert all(app.is_over for app in world.rm.apps.values())
    assert world.launcher.closed.is_set()


def test_refused_by_a_check(world: World) -> None:
    with pytest.raises(BadSpec):
        world.client.submit(job_spec(queue="root.none"))
    assert world.left_on_hdfs() == []
    assert not world.files.exists("/user/me/.yarnam")
    assert world.launcher.closed.is_set()


@pytest.mark.parametrize(
    "name", ["job.json", "credentials.pem", "hconf.zip", "yarnam-runtime", "/files/"]
)
def test_an_upload_that_fails(world: World, tmp_path: Path, name: str) -> None:
    script = tmp_path / "train.py"
    script.write_text("print(1)")

    def fail(operation: str, path: str) -> None:
        if operation == "create" and name in path:
            raise QuotaExceeded("the quota is full", path=path, operation=operation)

    world.files.fail = fail
    job = job_spec(files=(ShippedFile("train.py", str(script)),))
    failed(world, NoPermission, job)


def test_yarn_refuses(world: World) -> None:
    def refuse(_: Any) -> None:
        raise NoPermission("YARN refused the application")

    world.launcher.on_submit = refuse
    failed(world, NoPermission)


@pytest.mark.parametrize("error", [Unavailable("no answer"), KeyboardInterrupt()])
def test_yarn_took_it_but_nobody_heard(world: World, error: BaseException) -> None:
    """The driver died, or Ctrl-C came, between YARN's yes and its arrival here."""

    def die(_: Any) -> None:
        raise error

    world.launcher.accept_first = True
    world.launcher.on_submit = die
    failed(world, type(error))
    assert len(world.rm.killed) == 1


def test_interrupted_while_staging(world: World) -> None:
    def interrupt(operation: str, path: str) -> None:
        if operation == "mkdirs" and "/jobs/" in path:
            raise KeyboardInterrupt

    world.files.fail = interrupt
    with pytest.raises(KeyboardInterrupt):
        world.client.submit(job_spec())
    world.files.fail = lambda *_: None
    assert world.left_on_hdfs() == []
    assert world.launcher.closed.is_set()


def test_cleaning_up_never_hides_the_error(world: World) -> None:
    def refuse(_: Any) -> None:
        world.rm.failure = Unavailable("the ResourceManager is gone too")
        raise YarnamError("the first thing that went wrong")

    world.launcher.on_submit = refuse
    with pytest.raises(YarnamError, match="the first thing that went wrong"):
        world.client.submit(job_spec())


def test_spec_forms(world: World, tmp_path: Path) -> None:
    text = "version: 1\nname: a\nqueue: root.dl\ncommand: python3 train.py\ngpus: 1\n"
    file = tmp_path / "spec.yaml"
    file.write_text(text)
    from_text = world.client.parse(text)
    assert world.client.parse(str(file)) == from_text
    assert world.client.parse(file) == from_text
    mapping = {
        "version": 1, "name": "a", "queue": "root.dl", "command": "python3 train.py", "gpus": 1,
    }  # fmt: skip
    assert world.client.parse(mapping) == from_text
    assert from_text.user == "me"
    changed = world.client.parse(mapping, queue="root.research", name="b")
    assert (changed.queue, changed.name) == ("root.research", "b")


def test_plan_asks_nothing_and_writes_nothing(world: World) -> None:
    assert world.client.plan(job_spec()).plan.rungs
    assert world.left_on_hdfs() == []
    assert world.launcher.started == 0


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"output": "/results/mine"}, "data.outputs"),
        ({"checkpoint": CheckpointSpec("/ckpt/mine")}, "checkpoint.directory"),
    ],
)
def test_no_quota_left_where_it_will_write(
    world: World, changes: dict[str, Any], what: str
) -> None:
    world.files.mkdirs("/results", 0o777)
    world.files.mkdirs("/ckpt/mine")
    world.files.fail = fail_on("write", QuotaExceeded("The DiskSpace quota is exceeded"), times=99)
    with pytest.raises(NoPermission, match=f"{what}: cannot write to /.*mine.*quota") as caught:
        world.client.submit(job_spec(**changes))
    assert "larger" in caught.value.hint
    world.files.fail = lambda _operation, _path: None
    assert world.launcher.submitted == []
    assert world.files.list("/results") == world.files.list("/ckpt/mine") == []


def test_a_failed_submit_leaves_neither_claims_nor_new_directories(world: World) -> None:
    world.files.mkdirs("/results", 0o777)
    changes = {"output": "/results/a/b", "checkpoint": CheckpointSpec("/ckpt/not/there/yet")}

    def refuse(_: Any) -> None:
        raise Unavailable("YARN is away")

    world.launcher.on_submit = refuse
    with pytest.raises(Unavailable, match="YARN is away"):
        world.client.submit(job_spec(**changes))
    assert world.files.list("/results") == []
    assert not world.files.exists("/ckpt")


def test_the_bundled_python_is_the_one_of_am_and_agents(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("YARNAM_NODE_PYTHON", "/opt/python3.11")
    spec, _ = submitted(world, job_spec())
    assert "yarnam-python" not in spec.master.files
    bundled = job_spec(environment=EnvironmentSpec("bundled"))
    directory = world.client.submit(bundled).directory
    spec = world.launcher.submitted[-1]
    assert all("yarnam-python" in service.files for service in spec.services.values())
    record = decode(world.files.read_bytes(f"{directory}/job.json"), JobRecord)
    assert record.job.environment == EnvironmentSpec("yarnam-python/bin/python3")


def test_without_one_of_its_own_the_nodes_python_is_used(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise BadConfig("there is no patchelf", hint="Install it")

    monkeypatch.setattr(upload, "build_interpreter", refused)
    said: list[str] = []
    world.client._report = said.append
    spec, _ = submitted(world, job_spec())
    assert "yarnam-python" not in spec.master.files
    assert "AM and agents use a Python of the nodes: there is no patchelf. Install it" in said
    with pytest.raises(BadConfig, match="patchelf"):
        world.client.submit(job_spec(environment=EnvironmentSpec("bundled")))


def test_a_packed_environment_is_made_once_and_stays(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def build(recipe: packed_environment.Recipe, *_: object) -> list[Path]:
        made.append(recipe.key)
        layer = tmp_path / "layer-0a.tar.gz"
        archive = tmp_path / f"{recipe.key}.0a.tar.gz"
        archive.write_bytes(b"an environment")
        layer.write_bytes(b"large packages")
        return [archive, layer]

    monkeypatch.setattr(packed_environment, "build_environment", build)
    monkeypatch.setattr(packed_environment, "resolve", lambda file, *_: file.read_text())
    file = tmp_path / "requirements.txt"
    file.write_text("numpy==2\n")
    given = EnvironmentSpec(
        "bin/python", packed_from=PackedFrom(PackSource.REQUIREMENTS, str(file))
    )
    directories = [world.client.submit(job_spec(environment=given)).directory for _ in range(2)]
    assert len(made) == 1
    digests = [
        hashlib.sha256(content).hexdigest()[:20]
        for content in (b"an environment", b"large packages")
    ]
    target = f"{world.site.paths.environments}/{made[0]}.0a-{digests[0]}.tar.gz"
    layer = f"{world.site.paths.environments}/layer-0a-{digests[1]}.tar.gz"
    for directory in directories:
        record = decode(world.files.read_bytes(f"{directory}/job.json"), JobRecord)
        assert record.job.environment == EnvironmentSpec("bin/python", target, layers=(layer,))
        assert {target, layer} <= set(record.stored)
    files = next(iter(world.launcher.submitted[-1].services.values())).files
    assert files["environment-layer-0"].source == layer
    file.write_text("numpy==3\n")
    world.client.submit(job_spec(environment=given))
    assert len(made) == 2


def test_until_when_a_job_with_tokens_can_live_is_told(world: World) -> None:
    said: list[str] = []
    world.client._report = said.append
    submitted(world, job_spec())
    assert not any("can live until" in text for text in said)
    world.launcher.tokens_end = 1_800_000_000.0
    world.client.submit(job_spec())
    until = time.strftime("%Y-%m-%d %H:%M", time.localtime(1_800_000_000))
    assert said[-1] == (
        f"The job can live until {until}, when its delegation tokens end, or longer with "
        f"YARNAM_KEYTAB or 'yarnam tokens refresh application_1700000000000_0002'"
    )


def test_a_keytab_goes_along_for_the_am_alone(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(gssapi, "identity", lambda: gssapi.Identity("alice@SITE.TEST", 3600))
    path = tmp_path / "alice.keytab"
    path.write_bytes(keytab(record("alice")))
    world.site.environ = {**world.site.environ, "YARNAM_KEYTAB": str(path)}
    _, directory = submitted(world, job_spec())
    # A site without Kerberos has no use for it.
    assert not world.files.exists(f"{directory}/user.keytab")
    world.launcher.submitted.clear()
    world.site.who = HttpIdentity("me", is_kerberos=True)
    said: list[str] = []
    world.client._report = said.append
    world.launcher.tokens_end = 1.8e9
    spec, directory = submitted(world, job_spec())
    assert world.files.read_bytes(f"{directory}/user.keytab") == path.read_bytes()
    assert world.files.stat(f"{directory}/user.keytab").permission & 0o777 == 0o600
    assert "yarnam-user.keytab" in spec.master.files
    assert all("yarnam-user.keytab" not in service.files for service in spec.services.values())
    assert not any("can live until" in text for text in said)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "No such file"),
        (b"password", "not a keytab"),
        (keytab(record("bob"), record("alice")), "is bob@SITE.TEST's; the ticket is alice@SITE"),
        (keytab(), "is nobody's"),
    ],
)
def test_another_keytab_is_refused(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    content: bytes | None,
    says: str,
) -> None:
    monkeypatch.setattr(gssapi, "identity", lambda: gssapi.Identity("alice@SITE.TEST", 3600))
    path = tmp_path / "a.keytab"
    if content is not None:
        path.write_bytes(content)
    world.site.environ = {**world.site.environ, "YARNAM_KEYTAB": str(path)}
    world.site.who = HttpIdentity("me", is_kerberos=True)
    with pytest.raises(BadConfig, match=says):
        world.client.submit(job_spec())
    assert world.launcher.submitted == []


def test_a_queue_that_yarn_has_chosen_instead_is_said(world: World) -> None:
    world.launcher.queue = "root.shared"
    said: list[str] = []
    world.client._report = said.append
    world.client.submit(job_spec())
    [line] = [text for text in said if "root.shared" in text]
    assert "not into root.dl" in line
    assert "placement: exact" in line


@pytest.mark.parametrize("reported", ["root.dl", "dl", ""])
def test_the_queue_of_the_spec_by_whatever_name_is_no_news(world: World, reported: str) -> None:
    world.launcher.queue = reported
    said: list[str] = []
    world.client._report = said.append
    world.client.submit(replace(job_spec(), exact_queue=True))
    assert not [text for text in said if "queue" in text]


def test_an_exact_queue_is_that_one_or_no_job(world: World) -> None:
    world.launcher.queue = "root.shared"
    with pytest.raises(BadConfig, match=r"root\.shared, not into root\.dl") as refused:
        world.client.submit(replace(job_spec(), exact_queue=True))
    assert "placement rules" in refused.value.hint
    assert world.left_on_hdfs() == []
