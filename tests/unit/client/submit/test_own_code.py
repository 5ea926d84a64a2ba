"""A submit takes from HDFS only what nobody else could have put there."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from hdfs_utils.config.gateway import gateway_at
from tests.unit.client.world import World, job_spec
from yarnam.client.doctor.finding import Health
from yarnam.client.doctor.private_files import check_secret_files, check_stored_code
from yarnam.client.submit.hdfs_store import HdfsStore
from yarnam.client.submit.upload import JobUpload
from yarnam.core.model.job_spec import EnvironmentSpec, ShippedFile
from yarnam.errors import BadConfig, NoPermission

KERBEROS = (
    "<configuration>"
    "<property><name>fs.defaultFS</name><value>hdfs://memory</value></property>"
    "<property><name>hadoop.security.authentication</name><value>kerberos</value></property>"
    "</configuration>"
)
SHARED = "/envs/jax.tar.gz"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """After the first submit, so that all archives are there."""
    found = World(tmp_path)
    found.files.write_bytes(SHARED, b"environment")
    submit(found)
    found.launcher.submitted.clear()
    return found


def submit(world: World) -> str:
    spec = EnvironmentSpec(archive=f"hdfs://memory{SHARED}")
    return world.client.submit(job_spec(environment=spec)).directory


def with_kerberos(world: World) -> None:
    (world.site.conf_dir / "core-site.xml").write_text(KERBEROS)


def code_on_hdfs(world: World) -> list[str]:
    runtimes = [one.path for one in world.files.list("/user/me/.yarnam/runtime")]
    assert {path.rpartition(".")[2] for path in runtimes} == {"gz", "jar"}
    assert len(runtimes) == 3
    folders = ["/user", "/user/me", "/user/me/.yarnam", "/user/me/.yarnam/runtime", "/envs"]
    return [*folders, "/user/me/.yarnam/jobs", SHARED, *runtimes]


@pytest.mark.parametrize("kind", ["owner", "mode", "acl"])
def test_with_kerberos_nothing_that_others_could_have_put_there_is_run(
    world: World, kind: str
) -> None:
    with_kerberos(world)
    submit(world)
    world.launcher.submitted.clear()
    for path in code_on_hdfs(world):
        before = world.files.stat(path)
        if kind == "owner":
            world.files.chown(path, "eve")
        else:
            world.files.chmod(path, 0o777 if kind == "mode" else 0o770)
            world.files.set_acl(path, *(("user:eve:rwx",) if kind == "acl" else ()))
        jobs = world.files.list("/user/me/.yarnam/jobs")
        with pytest.raises(NoPermission, match=path) as refused:
            submit(world)
        assert ("chmod go-w" in refused.value.hint) is (kind != "owner")
        assert world.launcher.submitted == []
        assert world.files.list("/user/me/.yarnam/jobs") == jobs
        world.files.chown(path, "me")
        world.files.chmod(path, before.permission)
        world.files.set_acl(path)
    submit(world)


def test_with_simple_authentication_the_user_is_warned(world: World) -> None:
    world.files.chmod("/user/me", 0o777)
    said: list[str] = []
    upload = JobUpload(world.site, "20260101-000000-abcdef", said.append)
    upload._store.must_be_own("/user/me/.yarnam/runtime")
    upload.close()
    [warning] = said
    assert "everybody may write to /user/me" in warning
    submit(world)
    assert len(world.launcher.submitted) == 1


def test_files_that_the_spec_names_on_hdfs_may_be_data(world: World) -> None:
    with_kerberos(world)
    world.files.write_bytes("/data/vocabulary", b"words")
    world.files.chown("/data/vocabulary", "ann")
    world.client.submit(job_spec(files=(ShippedFile("v", "hdfs://memory/data/vocabulary"),)))
    assert len(world.launcher.submitted) == 1


def test_the_site_may_name_the_owner_of_a_shared_environment(world: World) -> None:
    with_kerberos(world)
    world.files.chown(SHARED, "mlops")
    world.site.environ = {**world.site.environ, "YARNAM_TRUSTED_OWNERS": "mlops"}
    submit(world)
    assert len(world.launcher.submitted) == 1


def archives_of(world: World) -> list[str]:
    listed = world.files.list("/user/me/.yarnam/runtime")
    return [one.path for one in listed if one.path.endswith(".tar.gz")]


def test_an_archive_carries_the_digest_of_its_bytes(world: World) -> None:
    for path in archives_of(world):
        digest = hashlib.sha256(world.files.read_bytes(path)).hexdigest()
        assert path.endswith(f"-{digest[:20]}.tar.gz")


def test_other_bytes_under_its_name_are_refused(world: World) -> None:
    submit(world)
    runtime = archives_of(world)[1]
    content = world.files.read_bytes(runtime)
    world.files.write_bytes(runtime, content[::-1], overwrite=True)
    with pytest.raises(BadConfig, match=f"{runtime} is not what was stored") as refused:
        submit(world)
    assert f"hdfs dfs -rm {runtime}" in refused.value.hint
    world.files.delete(runtime)
    submit(world)
    assert world.files.read_bytes(runtime) == content


def test_archives_are_compared_once_on_a_machine(world: World) -> None:
    read: list[str] = []

    def note(operation: str, path: str) -> None:
        if operation == "open" and path.endswith(".tar.gz"):
            read.append(path)

    world.files.fail = note
    submit(world)
    assert sorted(read) == archives_of(world)
    submit(world)
    assert sorted(read) == archives_of(world)


def test_of_two_with_the_same_content_the_older_is_used(world: World) -> None:
    [path, _] = archives_of(world)
    again = path.replace(path[-27:-7], "f" * 20)
    world.files.write_bytes(again, b"made elsewhere")
    world.files.write_bytes(f"{path}.removing", b"")
    spec = world.client.submit(job_spec())
    record = world.json_of(f"{spec.directory}/job.json")
    assert f"hdfs://memory{path}" in record["stored"]


def test_a_file_that_changes_while_it_is_sent_is_not_stored(world: World, tmp_path: Path) -> None:
    local = tmp_path / "env.tar.gz"
    local.write_bytes(b"after")
    target = f"{world.site.paths.environments}/{'0' * 20}.tar.gz"
    with pytest.raises(BadConfig, match="has changed during the upload"):
        HdfsStore(world.site, lambda _: None).upload_once(local, target, "the environment")
    assert not world.files.exists(target)


def test_doctor_lists_what_a_submit_would_refuse(world: World) -> None:
    assert check_stored_code(world.site).health is Health.OK
    [first, *_] = world.files.list("/user/me/.yarnam/runtime")
    world.files.chown(first.path, "eve")
    world.files.chmod("/user/me/.yarnam/jobs", 0o777)
    simple = check_stored_code(world.site)
    assert simple.health is Health.WARN
    with_kerberos(world)
    secure = check_stored_code(world.site)
    assert secure.health is Health.FAIL
    for found in (simple, secure):
        assert f"{first.path} belongs to eve" in found.message
        assert "hdfs dfs -chmod go-w /user/me/.yarnam/jobs" in found.hint


def test_doctor_names_secret_files_that_others_can_read(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("digest:me:secret")
    key.chmod(0o600)
    environ = {"YARNAM_ZOOKEEPER_AUTH_FILE": str(key)}
    assert check_secret_files(None, environ).health is Health.OK
    assert check_secret_files(None, {}).health is Health.OK
    key.chmod(0o640)
    found = check_secret_files(None, environ)
    assert found.health is Health.WARN
    assert f"{key} (mode 640)" in found.message


@pytest.mark.parametrize("named", ["netrc_file", "token_file"])
def test_so_it_does_for_the_gateway_s(tmp_path: Path, named: str) -> None:
    file = tmp_path / "secret"
    file.write_text("machine knox.example login me password s3cret\n")
    gateway = gateway_at("https://knox.example:8443/gateway/site", **{named: str(file)})
    file.chmod(0o600)
    assert check_secret_files(gateway, {}).health is Health.OK
    file.chmod(0o604)
    found = check_secret_files(gateway, {})
    assert found.health is Health.WARN
    assert str(file) in found.message
    assert "s3cret" not in found.message
