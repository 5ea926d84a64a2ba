"""A Kerberized cluster on this machine: HDFS and the ResourceManager by ticket, and by token."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import hdfs_native
import psutil
import pytest
from kazoo.exceptions import NoAuthError
from kazoo.security import make_acl

from hdfs_utils import connect
from hdfs_utils.backends.webhdfs import WebHdfsFileSystem
from hdfs_utils.config.delegation_tokens import DelegationToken
from hdfs_utils.errors import NotAuthenticated
from hdfs_utils.protocols import gssapi
from tests.integration.secure_site import (
    COMMAND_S,
    attempt,
    await_state,
    become_alice,
    run,
    secure_cluster,
    yarnam,
)
from tests.unit.hdfs_utils.config.test_delegation_tokens import credentials
from yarnam.adapters.http_identity import HttpIdentity
from yarnam.adapters.yarn.rest import ResourceManager
from yarnam.adapters.zookeeper.lazy_session import LazySession
from yarnam.adapters.zookeeper.session import ZooKeeper
from yarnam.cluster import EmbeddedCluster
from yarnam.cluster.daemons import daemon_probes
from yarnam.cluster.hadoop import site_files
from yarnam.cluster.hadoop.daemon_commands import daemon_command
from yarnam.cluster.hadoop.properties import properties_xml
from yarnam.cluster.hadoop.site_files import write_files
from yarnam.errors import ExitCode, NoPermission
from yarnam.wire.http_request import HttpError
from yarnam.wire.protocol import ZOOKEEPER_KERBEROS

pytestmark = pytest.mark.secure


RENEW_INTERVAL_S, MAX_LIFETIME_S = 60, 150
"""Of tokens. HDFS's native client takes none that ends for good within a minute."""

SHORT_LIVES = {
    site: {
        f"{daemon}.delegation.token.renew-interval": str(RENEW_INTERVAL_S * 1000),
        f"{daemon}.delegation.token.max-lifetime": str(MAX_LIFETIME_S * 1000),
    }
    for site, daemon in (("hdfs-site", "dfs.namenode"), ("yarn-site", "yarn.resourcemanager"))
}


ACLS = {"yarn.acl.enable": "true", "yarn.admin.acl": "yarn"}
"""Only the daemons administrate, so that the account is another user than alice."""


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    sites = {**SHORT_LIVES, "yarn-site": {**SHORT_LIVES["yarn-site"], **ACLS}}
    with secure_cluster(tmp_path_factory.mktemp("clusters"), sites) as cluster:
        yield cluster


@pytest.fixture
def alice(secure: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    become_alice(secure, monkeypatch)


def without_ticket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("KRB5CCNAME", "KRB5_CLIENT_KTNAME"):
        monkeypatch.setenv(name, f"FILE:{tmp_path / 'none'}")


def only_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, token: DelegationToken) -> None:
    """As in a container: no ticket, no keytab, a file of tokens."""
    without_ticket(monkeypatch, tmp_path)
    row = (token.identifier, token.password, token.kind.encode(), token.service.encode())
    (tmp_path / "tokens").write_bytes(credentials(row))
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", str(tmp_path / "tokens"))


def resource_manager(secure: EmbeddedCluster) -> ResourceManager:
    conf = str(secure.conf_dir)
    return ResourceManager.from_conf(conf, who=HttpIdentity(is_kerberos=True, conf_dir=conf))


@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize("backend", ["native", "webhdfs", "auto"])
def test_hdfs_knows_who_asks_by_the_ticket(backend: str) -> None:
    who = gssapi.identity()
    assert who.principal == "alice@YARNAM.TEST"
    assert who.left_s > 3600
    fs = connect(backend=backend, timeout_s=20)
    path, content = f"/user/alice/{backend}", os.urandom(100_000)
    fs.write_bytes(path, content)
    assert fs.read_bytes(path) == content
    assert fs.stat(path).owner == "alice"
    assert fs.block_locations(path)[0].length == len(content)
    assert fs.free_space().capacity > 0


@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize("backend", ["native", "webhdfs"])
def test_hdfs_by_token_alone(backend: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    web = connect(backend="webhdfs", timeout_s=20)
    assert isinstance(web, WebHdfsFileSystem)
    only_token(monkeypatch, tmp_path, web.delegation_token("yarn").for_rpc(""))
    fs = connect(backend=backend, timeout_s=20)
    path = f"/user/alice/by-token-{backend}"
    fs.write_bytes(path, b"by token")
    assert fs.read_bytes(path) == b"by token"
    assert fs.stat(path).owner == "alice"


@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize("backend", ["native", "webhdfs"])
def test_hdfs_without_anything_says_what_to_do(
    backend: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without_ticket(monkeypatch, tmp_path)
    with pytest.raises(NotAuthenticated, match="there is no Kerberos ticket: run kinit"):
        connect(backend=backend, timeout_s=20).stat("/")


@pytest.mark.usefixtures("alice")
def test_the_resource_manager_by_ticket_then_by_token(
    secure: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rm = resource_manager(secure)
    assert len(rm.snapshot("root.dl").nodes) == 1
    token, ends_s = rm.delegation_token("yarn")
    assert token.kind == "RM_DELEGATION_TOKEN"
    assert ends_s > time.time()
    only_token(monkeypatch, tmp_path, token)
    assert rm.info()["haState"] == "ACTIVE"
    assert rm.new_application().startswith("application_")
    monkeypatch.delenv("HADOOP_TOKEN_FILE_LOCATION")
    with pytest.raises(NoPermission, match="there is no Kerberos ticket: run kinit"):
        rm.info()


@pytest.mark.usefixtures("alice")
def test_nobody_is_who_he_says(secure: EmbeddedCluster) -> None:
    with pytest.raises(NoPermission, match="Kerberos"):
        ResourceManager.from_conf(str(secure.conf_dir), user="alice").info()


@pytest.mark.usefixtures("alice")
@pytest.mark.timeout(400)
def test_code_that_others_could_have_put_on_hdfs_is_refused(
    secure: EmbeddedCluster, tmp_path: Path
) -> None:
    """By mode, and by an ACL; and doctor says it before."""
    home = "/user/alice"
    files = connect(conf_dir=str(secure.conf_dir), timeout_s=20)
    acls = hdfs_native.Client(config_dir=str(secure.conf_dir))
    spec = tmp_path / "job.yaml"
    spec.write_text(
        "version: 1\nname: mine\nqueue: root.dl\ncommand: 'true'\n"
        "roles:\n  worker: {tasks: 1, gpus: 1, memory: 512MiB, vcores: 1}\n"
    )
    assert files.stat(home).owner == "alice"
    try:
        files.chmod(home, 0o777)
        assert_refused(str(spec), "everybody", f"may write to {home}")
        files.chmod(home, 0o755)
        acls.modify_acl_entries(home, [hdfs_native.AclEntry("user", "access", "rwx", "bob")])
        assert_refused(str(spec), "user bob", f"may write to {home}")
    finally:
        acls.remove_acl(home)
        files.chmod(home, 0o755)
    assert "SUCCEEDED" in yarnam("submit", "--watch", str(spec))
    assert check_of(json.loads(yarnam("doctor", "--json")))["health"] == "ok"


def assert_refused(spec: str, *words: str) -> None:
    submitted = attempt("submit", "--detach", spec)
    assert submitted.returncode == ExitCode.NO_PERMISSION
    found = check_of(json.loads(attempt("doctor", "--json").stdout))
    assert found["health"] == "fail"
    for word in words:
        assert word in submitted.stderr
        assert word in found["message"]
    assert "hdfs dfs -chmod go-w /user/alice" in submitted.stderr


def check_of(findings: list[dict[str, str]]) -> dict[str, str]:
    [found] = [each for each in findings if each["part"] == "Code on HDFS"]
    return found


@pytest.mark.usefixtures("alice")
@pytest.mark.timeout(400)
def test_the_page_of_a_job_is_behind_spnego(secure: EmbeddedCluster, tmp_path: Path) -> None:
    """By YARN's proxy, which speaks HTTPS alone; and the API below it, for scripts."""
    spec = tmp_path / "job.yaml"
    spec.write_text(
        "version: 1\nname: page\nqueue: root.dl\ncommand: sleep 600\n"
        "roles:\n  worker: {tasks: 1, gpus: 1, memory: 512MiB, vcores: 1}\n"
    )
    application = run("submit", "--detach", str(spec)).stdout.split()[0]
    try:
        status = await_state(application, "RUNNING", COMMAND_S)
        url = status["tracking_url"]
        assert url.startswith(f"{secure.rm_url}/proxy/{application}")
        assert secure.rm_url.startswith("https:")
        conf = str(secure.conf_dir)
        alice = HttpIdentity(is_kerberos=True, conf_dir=conf)
        assert b"<html" in alice.get(url, timeout_s=30).body
        assert await_job(alice, url)["name"] == "page"
        with pytest.raises(HttpError) as refused:
            HttpIdentity("alice", conf_dir=conf).get(url, timeout_s=30)
        assert refused.value.status == 401
    finally:
        yarnam("kill", application)


def await_job(who: HttpIdentity, url: str) -> dict[str, Any]:
    """The job by its API. YARN's proxy leads to Skein's own pages until the ApplicationMaster has
    announced the job's, at one of its next heartbeats."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return who.get(f"{url}api/v1/job", timeout_s=30).json()
        except HttpError as error:
            if error.status != 404 or time.monotonic() > deadline:
                raise
            time.sleep(0.3)


@pytest.mark.timeout(600)
def test_who_may_see_and_end_a_job(
    secure: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every line of the table of security.md that YARN's ACLs decide."""
    other = secure.plan.user
    become_alice(secure, monkeypatch)

    def submitted(name: str, acls: str) -> str:
        spec = tmp_path / f"{name}.yaml"
        spec.write_text(
            f"version: 1\nname: {name}\nqueue: root.dl\ncommand: sleep 600\n{acls}\n"
            "roles:\n  worker: {tasks: 1, gpus: 1, memory: 512MiB, vcores: 1}\n"
        )
        return run("submit", "--detach", str(spec)).stdout.split()[0]

    jobs = {
        "closed": submitted("closed", ""),
        "seen": submitted("seen", f"acls: {{view: ['{other}']}}"),
    }
    try:
        urls = {
            name: await_state(job, "RUNNING", COMMAND_S)["tracking_url"]
            for name, job in jobs.items()
        }
        mine = HttpIdentity(is_kerberos=True, conf_dir=str(secure.conf_dir))
        for url in urls.values():
            assert await_job(mine, url)["user"] == "alice"
        for name, value in secure.environ(other).items():
            monkeypatch.setenv(name, value)
        theirs = HttpIdentity(is_kerberos=True, conf_dir=str(secure.conf_dir))
        for path in ("", "api/v1/job", "api/v1/events", "metrics"):
            with pytest.raises(HttpError, match=f"{other} may not see|HTTP 403"):
                theirs.get(f"{urls['closed']}{path}", timeout_s=30)
            assert theirs.get(f"{urls['seen']}{path}", timeout_s=30).body
        for job in jobs.values():
            refused = subprocess.run(
                [sys.executable, "-m", "yarnam", "kill", job],
                capture_output=True, text=True, timeout=COMMAND_S, check=False,
            )  # fmt: skip
            assert refused.returncode != 0, refused
        doctor = subprocess.run(
            [sys.executable, "-m", "yarnam", "doctor"],
            capture_output=True, text=True, timeout=COMMAND_S, check=False,
        )  # fmt: skip
        assert "yarn.acl.enable" not in doctor.stdout
    finally:
        become_alice(secure, monkeypatch)
        yarnam("kill", *jobs.values())
    assert connect(timeout_s=20).stat("/user/alice/.yarnam/history").permission == 0o700


@pytest.fixture
def second(secure: EmbeddedCluster, tmp_path: Path) -> Iterator[str]:
    """Another HDFS of the realm: a NameNode without DataNodes. The URI of its web server."""
    names = ("namenode_rpc", "namenode_web", "namenode_https")
    ports = {**secure.plan.ports, **dict(zip(names, free_ports(len(names)), strict=True))}
    plan = replace(secure.plan, ports=ports)
    own = {"dfs.namenode.name.dir": f"file://{tmp_path / 'name'}"}
    write_files(tmp_path / "conf", {
        "core-site.xml": properties_xml(site_files.core_site(plan)),
        "hdfs-site.xml": properties_xml(site_files.hdfs_site(plan) | own),
    })  # fmt: skip
    command = daemon_command(plan, "nn")
    environ = {**command.environment}
    environ["CLASSPATH"] = f"{tmp_path / 'conf'}:{environ['CLASSPATH']}"
    argv = [f"-Dyarnam.log={tmp_path / 'nn.log'}" if "-Dyarnam.log=" in one else one
            for one in command.argv]  # fmt: skip
    subprocess.run([*argv, "-format", "-nonInteractive"], env=environ, check=True, timeout=120)
    with subprocess.Popen(argv, env=environ) as process:
        try:
            deadline = time.monotonic() + 120
            while True:
                try:
                    daemon_probes.make_directory(plan, "/open", "777")
                    break
                except daemon_probes.NotReady:
                    assert time.monotonic() < deadline, (tmp_path / "nn.log").read_text()[-3000:]
                    time.sleep(0.5)
            yield plan.namenode_web.replace("https:", "swebhdfs:")
        finally:
            process.kill()


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@pytest.mark.usefixtures("alice")
@pytest.mark.timeout(600)
def test_a_job_has_tokens_for_all_file_systems_that_it_names(second: str, tmp_path: Path) -> None:
    """Its containers have nothing else to show there."""
    (tmp_path / "write.py").write_text(
        "import os, sys, hdfs_utils\n"
        "assert 'KRB5_CLIENT_KTNAME' not in os.environ\n"
        "hdfs_utils.connect(sys.argv[1], timeout_s=20).mkdirs('/open/by-the-job')\n"
    )
    spec = tmp_path / "job.yaml"
    spec.write_text(
        "version: 1\nname: elsewhere\nqueue: root.dl\n"
        f"command: '{sys.executable} {tmp_path / 'write.py'} {second}'\n"
        f"data: {{inputs: [{{name: there, path: '{second}/open'}}]}}\n"
        "roles:\n  worker: {tasks: 1, gpus: 1, memory: 512MiB, vcores: 1}\n"
    )
    assert "SUCCEEDED" in yarnam("submit", "--watch", str(spec))
    made = connect(f"{second}/open", timeout_s=20).stat("/open/by-the-job")
    assert made.owner == "alice"


def connected(session: LazySession) -> ZooKeeper:
    """However long a busy machine takes."""
    zookeeper, deadline = session.open(), time.monotonic() + 60
    while not zookeeper.is_connected:
        assert time.monotonic() < deadline, "ZooKeeper lets nobody in"
        time.sleep(0.1)
    return zookeeper


@pytest.mark.usefixtures("alice")
def test_zookeeper_knows_who_asks(
    secure: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By the ticket, and by a keytab where there is none: what is alice's alone is hers."""
    place = f"{secure.zookeeper}/yarnam-test"
    keytab = secure.paths.keytab("alice")
    nobody = LazySession(place)
    by_ticket = LazySession(place, ZOOKEEPER_KERBEROS)
    mine = [make_acl("sasl", "alice", all=True)]
    connected(by_ticket).kazoo.create("/alices", b"hers", acl=mine)
    with pytest.raises(NoAuthError):
        connected(nobody).kazoo.get("/alices")
    without_ticket(monkeypatch, tmp_path)
    by_keytab = LazySession(place, f"{ZOOKEEPER_KERBEROS}:{keytab}")
    assert connected(by_keytab).kazoo.get("/alices")[0] == b"hers"
    # What yarnam itself makes there is everybody's.
    assert by_keytab.connected().create(by_keytab.connected().path("node"), b"ours")
    assert nobody.connected().read("/yarnam-test/node")[0] is not None
    for session in (nobody, by_ticket, by_keytab):
        session.close()


@pytest.mark.usefixtures("alice")
def test_zookeeper_by_tls_and_ticket(secure: EmbeddedCluster) -> None:
    """Checked against the site's authority, which its truststore has."""
    address = f"{secure.plan.master}:{secure.plan.ports['zookeeper_tls']}"
    session = LazySession(f"tls://{address}/yarnam-tls", ZOOKEEPER_KERBEROS)
    zookeeper = connected(session)
    assert zookeeper.hosts == address
    zookeeper.create("/yarnam-tls/node", b"encrypted")
    session.close()


JAVA_AM = "com.anaconda.skein.ApplicationMaster"

LONG_PROGRAM = """\
import sys, time
import hdfs_utils

ROOT, until = sys.argv[1], float(sys.argv[2])
first = hdfs_utils.connect(timeout_s=20)
first.mkdirs(ROOT)
step = int(first.read_bytes(f"{ROOT}/step")) if first.exists(f"{ROOT}/step") else 0
print("goes on after step", step, flush=True)
while time.time() < until:
    step += 1
    web = hdfs_utils.connect(backend="webhdfs", timeout_s=20)
    for fs in (first, hdfs_utils.connect(timeout_s=20), web):
        fs.write_atomic(f"{ROOT}/step", str(step).encode())
    time.sleep(1)
"""
"""A checkpoint each second, by the client that was there first, by a new one, and over HTTP."""


def submit_long(folder: Path, root: str, lives_s: float, **environ: str) -> tuple[str, str]:
    """A job that needs HDFS for so many seconds; its id, and what submit said."""
    (folder / "long.py").write_text(LONG_PROGRAM)
    spec = folder / "job.yaml"
    spec.write_text(
        "version: 1\nname: long\nqueue: root.dl\nam: {attempts: 3}\n"
        f"command: '{sys.executable} {folder / 'long.py'} {root} {time.time() + lives_s:.0f}'\n"
        "roles:\n  worker: {tasks: 1, gpus: 1, memory: 512MiB, vcores: 1}\n"
    )
    done = run("submit", "--detach", str(spec), **environ)
    return done.stdout.split()[0], done.stderr


def step_of(root: str) -> int:
    fs = connect(timeout_s=20)
    return int(fs.read_bytes(f"{root}/step")) if fs.exists(f"{root}/step") else 0


def ends_well(application: str, limit_s: float) -> dict[str, Any]:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        found: dict[str, Any] = json.loads(yarnam("status", application, "--json"))
        if found["verdict"]:
            assert found["verdict"]["kind"] == "SUCCEEDED", found["verdict"]
            return found
        time.sleep(2)
    raise AssertionError(f"{application} has not ended within {limit_s:g} s")


def kill_am(application: str) -> None:
    """The Java of its ApplicationMaster, as a node that dies would."""
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or ())
        if application in line and "/java" in line and JAVA_AM in line:
            process.kill()


def kill_agents(application: str) -> None:
    for process in psutil.process_iter(["cmdline"]):
        if "yarnam.cli.containers.agent_process" in (process.info["cmdline"] or ()):
            with suppress(psutil.Error):
                container = process.environ().get("CONTAINER_ID", "")
                if application.removeprefix("application") in container:
                    process.kill()


@pytest.mark.usefixtures("alice")
@pytest.mark.timeout(500)
def test_jobs_outlive_their_tokens(secure: EmbeddedCluster, tmp_path: Path) -> None:
    """One by its keytab, whose AM is killed on the way, and its agent once the first tokens are
    dead; one by its owner's refresh."""
    own, refreshed = "/user/alice/by-keytab", "/user/alice/by-refresh"
    began = time.monotonic()
    keytab = str(secure.paths.keytab("alice"))
    by_keytab, said = submit_long(tmp_path, own, MAX_LIFETIME_S + 120, YARNAM_KEYTAB=keytab)
    assert "can live until" not in said
    by_refresh, said = submit_long(tmp_path, refreshed, MAX_LIFETIME_S + 30)
    assert "The job can live until" in said
    while not (step_of(own) and step_of(refreshed)):
        time.sleep(0.5)
    # While those of the submission live: Skein's Java has no others to start with.
    kill_am(by_keytab)
    while time.monotonic() < began + MAX_LIFETIME_S + 10:
        assert "its tokens live until" in yarnam("tokens", "refresh", by_refresh)
        time.sleep(RENEW_INTERVAL_S / 2)
    assert json.loads(yarnam("status", by_keytab, "--json"))["state"] == "RUNNING"
    assert ends_well(by_refresh, 100)["attempt"] == 1
    assert step_of(refreshed) > 10
    kill_agents(by_keytab)
    await_state(by_keytab, "RUNNING", 100, attempt=3)
    before = step_of(own)
    assert before > 10
    assert ends_well(by_keytab, 150)["attempt"] == 3
    assert step_of(own) > before + 5
    left = [path for path in connect(timeout_s=20).walk("/user/alice") if "keytab" in path.path]
    assert [path.path for path in left if not path.path.startswith(own)] == []
