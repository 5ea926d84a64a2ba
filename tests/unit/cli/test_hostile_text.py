"""Every command shows text of others without obeying it: no escape sequence, no change of direction
and no markup of it reaches a terminal, a pipe or JSON. A command without a case here fails."""

from __future__ import annotations

import importlib
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import numpy as np
import pytest

from hdfs_utils.blacklist import quarantine
from hdfs_utils.checkpoints import Checkpointer, Retention, Token
from hdfs_utils.errors import PermissionDenied, Unavailable
from tests.fakes.cluster_view import cluster
from tests.unit.accounting.records import record
from tests.unit.cli.terminal import in_pipes, on_terminal
from tests.unit.client.monitor.test_requested_size import elastic
from tests.unit.client.world import APPLICATION, World, job_spec, status, task, verdict
from tests.unit.hdfs_utils.validation.samples import make
from yarnam.adapters.hdfs.history_store import HistoryStore
from yarnam.cli.catalog import ENTRIES
from yarnam.cli.shell import Shell, run
from yarnam.client import Client, Job, LogPiece
from yarnam.client.environments.programs.environment_probe import MARK
from yarnam.client.planning.snapshot_file import save_snapshot
from yarnam.client.queues import alert_check, maintenance
from yarnam.client.site import Site
from yarnam.client.submit import waiting_jobs
from yarnam.cluster.cluster_paths import ClusterPaths
from yarnam.cluster.cluster_plan import ClusterPlan, ClusterRecord, save_cluster
from yarnam.cluster.daemons.loopback_addresses import MASTER_PORTS, NODE_PORTS
from yarnam.cluster.shape import ClusterShape, assign_nodes
from yarnam.core.accounting.history_record import MeasuredSize
from yarnam.core.failures.process_failure import UNKNOWN
from yarnam.core.model.events import CancelRequested
from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.job_spec import NotebookSpec
from yarnam.core.model.job_status import (
    AttemptRecord,
    JobState,
    PolicyStatus,
    RefusedNode,
    StartForecast,
    WaitQueueStatus,
)
from yarnam.core.model.outcomes import FirstCause, VerdictKind
from yarnam.core.model.session_parts import (
    EndKind,
    RankStacks,
    SessionData,
    SessionEnd,
    StackFrame,
    ThreadStack,
)
from yarnam.core.model.snapshot import Closure, Closures, NodeStrike
from yarnam.core.model.tickets import RunningGang
from yarnam.core.policies.chosen_policy import QueuePolicy
from yarnam.core.queue_client.ticket_list import TicketList
from yarnam.errors import NoPermission
from yarnam.wire.codec import encode
from yarnam.wire.records import JobRecord

NAME = (
    "\x1b]52;c;Zm9v\x07"  # OSC: write the clipboard
    "\x1b[2J\x1b[41;30m"  # CSI: clear the screen, colours
    "\x9b3A\x9d8;;evil\x9c"  # the same in one byte: cursor up, a link
    "\u202etxt.exe\u2066"  # the other way round
    "\u200b\U000e0041"  # drawn as nothing
    "[link=evil]y[bold]"  # rich's markup
    "\u2028\r\nforged"  # ends of lines
)
"""A file on HDFS can be called so."""

TEXT = f"{NAME}\x1b]8;;http://evil\x1b\\here\x1b]8;;\x1b\\ [/z] :smile: \udcff"
"""What a file's name cannot have: slashes, colons, what is no Unicode."""

MARKS = (r"\x1b]52;c;Zm9v\x07\x1b[2J\x1b[41;30m", r"\x9b3A\x9d8;;evil\x9c", r"\u202etxt.exe\u2066",
         r"\u200b\U000e0041", "[link=evil]y[bold]")  # fmt: skip
"""What is to be seen of both."""

OURS = re.compile(r"\x1b\[(?:[0-9;]*m|\?25[hl]|[0-9]*[AKG])|\r")
"""On a terminal: colours and the live view."""

SPEC = """\
version: 1
name: hello
queue: root.dl
command: python3 train.py
gpus: 8
"""


@dataclass(frozen=True)
class Stage:
    """What a case prepares its command's text on."""

    world: World
    folder: Path
    patch: pytest.MonkeyPatch

    def file(self, path: str, data: bytes = b"x\n") -> str:
        self.world.files.write_bytes(path, data)
        return path

    def spec(self, more: str = "") -> str:
        path = self.folder / "spec.yaml"
        path.write_text(SPEC + more)
        return str(path)

    def fail_with(self, message: str) -> None:
        """HDFS refuses every file's content, in these words."""

        def fail(operation: str, path: str) -> None:
            if operation == "open":
                raise Unavailable(message, path=path)

        self.world.files.fail = fail


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setenv("YARNAM_OPEN_BLACKLIST", "/tmp/open-blacklist")
    monkeypatch.setenv("YARNAM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return Stage(World(tmp_path / "world"), tmp_path, monkeypatch)


# ---- jobs --------------------------------------------------------------------------------------


def others_warning(stage: Stage) -> str:
    """A spec whose input another user, who may not write it, has put on the blacklist."""
    stage.file("/data/set/a.jsonl", make("a.jsonl", 1))
    stage.file("/data/set/b.jsonl", make("a.jsonl", 2))

    def fail(operation: str, path: str) -> None:
        if path.startswith("/data") and operation in ("mkdirs", "create"):
            raise PermissionDenied("not yours", path=path)

    stage.world.files.fail = fail
    shell = Shell(lambda **_: stage.world.client)
    with in_pipes():
        assert run(["blacklist", "add", "/data/set/a.jsonl", "--evidence", NAME], shell) == 0
    return stage.spec("data: {inputs: [{name: set, path: 'hdfs:///data/set', on_corrupt: skip}]}\n")


def submit(stage: Stage) -> list[str]:
    return [others_warning(stage), "--detach"]


def submit_dry_run(stage: Stage) -> list[str]:
    return [others_warning(stage), "--dry-run"]


def plan(stage: Stage) -> list[str]:
    rm = stage.world.rm
    rm.nodes = tuple(
        replace(n, node_id=NodeId(f"{n.node_id}{TEXT}"), rack=RackId(TEXT), gpu_model=TEXT)
        for n in rm.nodes
    )
    return [stage.spec()]


def advise(stage: Stage) -> list[str]:
    store = HistoryStore(stage.world.files, stage.world.site.paths.history)
    size = MeasuredSize(1, 1, 1, 0.5)
    spec = stage.spec()
    job = stage.world.client.parse(spec)
    store.put(
        record(application=TEXT, name=job.name, user="me", framework=job.framework, sizes=(size,))
    )
    return [spec]


def job_with_everything(stage: Stage, state: JobState) -> None:
    one = task(TEXT, (0, 1), node=TEXT, rack=TEXT, gpu_ids=(TEXT,), exit_text=TEXT)
    stage.world.line.statuses = [
        status(
            state,
            name=TEXT,
            user=TEXT,
            queue=TEXT,
            reason=TEXT,
            tasks=(one,),
            history=(
                AttemptRecord(1, 0, "NODE", 1.0, 2.0, 2, 1, TEXT),
                AttemptRecord(2, 1, "RACK", 3.0, None, 2, 2),
            ),
            blacklist=(RefusedNode(TEXT, 1.0, TEXT),),
            metrics=((TEXT, 1.0),),
            checkpoint=TEXT,
            tracking_url=TEXT,
            wait_queue=WaitQueueStatus(
                9, 2, TEXT, TEXT, 16, TEXT, start=StartForecast(1.0, unknown_why=TEXT)
            ),
            verdict=replace(verdict(VerdictKind.FAILED, 90, TEXT), hint=TEXT),
        )
    ]
    stage.world.job(name=TEXT, queue=TEXT)


def status_(stage: Stage) -> list[str]:
    job_with_everything(stage, JobState.RUNNING)
    return [APPLICATION]


def watch(stage: Stage) -> list[str]:
    job_with_everything(stage, JobState.FAILED)

    def end(_: object) -> None:
        if stage.world.line._next == len(stage.world.line.statuses):
            stage.world.rm.change(APPLICATION, state="FINISHED")

    stage.world.rm.on_look = end
    return [APPLICATION]


def ps(stage: Stage) -> list[str]:
    job_with_everything(stage, JobState.RUNNING)
    return ["--user", "*"]


def top(stage: Stage) -> list[str]:
    job_with_everything(stage, JobState.RUNNING)
    return [APPLICATION, "--once"]


def logs(stage: Stage) -> list[str]:
    """The bytes of a process are a case of their own, below."""
    pieces = (
        LogPiece(TEXT, 0, b"x\n"),
        LogPiece("", None, TEXT.encode(errors="replace"), "", True),
    )
    stage.patch.setattr(Job, "logs", lambda *_, **__: iter(pieces))
    stage.world.job()
    return [APPLICATION]


def events(stage: Stage) -> list[str]:
    stage.world.line.journal = [CancelRequested(2.0, TEXT, TEXT)]
    stage.world.job()
    return [APPLICATION]


def explain(stage: Stage) -> list[str]:
    job_with_everything(stage, JobState.FAILED)
    finding = replace(UNKNOWN, rule=TEXT, line=TEXT, explanation=TEXT, hint=TEXT, ruled_out=(TEXT,))
    cause = FirstCause(TEXT, 0, TEXT, TEXT, finding, (TEXT,))
    (one,) = stage.world.line.statuses
    assert one.verdict is not None
    ended = replace(one, verdict=replace(one.verdict, cause=cause))
    stage.world.line.statuses = [ended]
    return [APPLICATION]


def scale(stage: Stage) -> list[str]:
    record = stage.world.job(key="20261121-000000-abcdef").record()
    job = elastic()
    job = replace(job, roles=(replace(job.roles[0], name=NAME),))
    stage.world.put("20261121-000000-abcdef", "job.json", encode(replace(record, job=job)))
    return [APPLICATION, "99"]  # too large: the refusal names the role


def suspend(stage: Stage) -> list[str]:
    job_with_everything(stage, JobState.RUNNING)
    stage.world.site.timing = replace(stage.world.site.timing, cancel_patience_s=0.0)
    record = stage.world.client.job(APPLICATION).record()
    job = replace(record.job, am=replace(record.job.am, stop_grace_s=0.0))
    stage.world.put(record.key, "job.json", encode(replace(record, job=job)))
    return [APPLICATION, "--force"]  # not in time: the error says what the job does


def resume(stage: Stage) -> list[str]:
    job_with_everything(stage, JobState.SUSPENDED)
    stage.world.site.timing = replace(stage.world.site.timing, cancel_patience_s=0.0)
    return [APPLICATION]  # as above


def chosen_by_others(stage: Stage) -> None:
    """What lies in ZooKeeper, where anybody may write."""
    odd = TEXT.replace("\udcff", "")
    chosen = QueuePolicy("fifo", ((odd, odd),), by=odd, at_s=1e9, version=3)

    @contextmanager
    def opened(site: Site) -> Iterator[Any]:
        yield SimpleNamespace(
            of=lambda queue: chosen,
            all=lambda: {NAME: chosen},
            choose=lambda queue, wanted, **more: wanted,
            is_protected=lambda queue: False,
        )

    stage.world.site.zookeeper = "zk1:2181/yarnam"
    stage.patch.setattr("yarnam.client.queues.chosen_policies._opened", opened)


def closed_by_others(stage: Stage) -> None:
    """Everything is closed, for such a reason."""
    closure = Closure(TEXT, 1000.0, TEXT, 2000.0, was_closed=True)

    class Places:
        def all(self) -> Closures:
            nodes = {node.node_id: closure for node in stage.world.rm.nodes}
            return Closures(nodes, {"root.dl": closure, f"root.{TEXT}": closure})

        def of(self, kind: str, name: str) -> Closure:
            return closure

        def close(self, kind: str, name: str, order: Closure, *, admin: str = "") -> None:
            del kind, name, order, admin

        def open(self, kind: str, name: str, *, admin: str = "") -> None:
            del kind, name, admin

        def is_protected(self) -> bool:
            return True

    @contextmanager
    def opened(site: Site) -> Iterator[Any]:
        yield Places()

    stage.world.site.zookeeper = "zk1:2181/yarnam"
    stage.patch.setattr("yarnam.client.queues.maintenance._opened", opened)
    for module in (waiting_jobs, maintenance):
        stage.patch.setattr(module, "read_closures", lambda site: Places().all())


def queue_of(stage: Stage) -> list[str]:
    closed_by_others(stage)
    return ["root.dl", "--reason", TEXT]


def node_of(stage: Stage) -> list[str]:
    closed_by_others(stage)
    return [str(stage.world.rm.nodes[0].node_id), "--reason", TEXT]


def alerts(stage: Stage) -> list[str]:
    """Strikes that another user has written."""
    node = stage.world.rm.nodes[0].node_id
    made = tuple(NodeStrike(node, TEXT, time.time() - k, TEXT) for k in range(3))
    stage.patch.setattr(alert_check, "read_strikes", lambda site: made)
    return []


def policy_ls(stage: Stage) -> list[str]:
    chosen_by_others(stage)
    return []


def policy_show(stage: Stage) -> list[str]:
    chosen_by_others(stage)
    return ["root.dl"]


def policy_set(stage: Stage) -> list[str]:
    chosen_by_others(stage)
    return ["root.dl", "fifo"]  # it tells what was chosen before


def policy_explain(stage: Stage) -> list[str]:
    job_with_everything(stage, JobState.RUNNING)
    [shown] = stage.world.line.statuses
    row = PolicyStatus(TEXT, 3, "wait", 0, 2, TEXT, TEXT)
    stage.world.line.statuses = [replace(shown, policy=row)]
    return [APPLICATION]


def policy_cells(stage: Stage) -> list[str]:
    """Another job, in a queue of such a name, is on a node of a quota."""
    queue = f"root.{TEXT.replace('.', '')}"
    stage.world.rm.queue_names = ["root.dl", queue]
    nodes = stage.world.rm.nodes
    gangs = [
        RunningGang(NAME, queue, 1, None, ((node.node_id, 1),)) for node in nodes if node.total.gpus
    ]
    listed = TicketList(running=tuple(gangs))
    stage.patch.setattr("yarnam.client.queues.cells_now.read_wait_queue", lambda site: listed)
    return ["--quota", f"root.dl={len(nodes)}"]


def tensorboard(stage: Stage) -> list[str]:
    stage.patch.setattr("yarnam.cli.jobs.tensorboard_command.NEEDED", ())
    record = stage.world.job(key="20261121-000000-abcdef").record()
    job = replace(record.job, env=(("TENSORBOARD_LOGGING_DIR", f"file:///{NAME}"),))
    stage.world.put("20261121-000000-abcdef", "job.json", encode(replace(record, job=job)))
    return [APPLICATION, "--port", "0"]  # no directory on HDFS: the refusal names it


def tokens_refresh(stage: Stage) -> list[str]:
    def refuse() -> Any:
        raise NoPermission(TEXT, hint=TEXT)

    stage.world.client.site.open_token_source = refuse
    return [APPLICATION]


def session(stage: Stage) -> None:
    """One that is cut, for a reason of the task's own agent."""
    stage.world.line.statuses = [status(tasks=(task("worker-0", (0, 1)),))]
    stage.world.line.session_parts = [SessionEnd(EndKind.CUT, reason=TEXT)]
    stage.world.job()


def exec_(stage: Stage) -> list[str]:
    session(stage)
    return [APPLICATION, "true"]


def debug(stage: Stage) -> list[str]:
    session(stage)
    frames = (StackFrame(TEXT, TEXT, 1),)
    found = RankStacks(7, TEXT, (ThreadStack(TEXT, frames),))
    stage.world.line.session_parts = [SessionData(encode(found)), SessionEnd(EndKind.EXITED)]
    return [APPLICATION, "--rank", "0"]


def port_forward(stage: Stage) -> list[str]:
    session(stage)
    return [APPLICATION, ":80"]


def notebook(stage: Stage) -> list[str]:
    arguments = watch(stage)
    handle = stage.world.client.job(APPLICATION)
    record = handle.record()
    job = replace(record.job, notebook=NotebookSpec())
    stage.world.put(handle.directory.split("/")[-1], "job.json", encode(replace(record, job=job)))
    return arguments


def cp(stage: Stage) -> list[str]:
    session(stage)
    return [f"{APPLICATION}:x", str(stage.folder / "copied")]


def kill(stage: Stage) -> list[str]:
    stage.world.rm.failure = NoPermission(TEXT, hint=TEXT)
    return [APPLICATION]


# ---- data --------------------------------------------------------------------------------------


def local_file(stage: Stage) -> Path:
    folder = stage.folder / "local"
    folder.mkdir()
    (folder / NAME).write_text("x\n")
    return folder


def data_put(stage: Stage) -> list[str]:
    return [str(local_file(stage) / NAME), "/data/"]


def data_get(stage: Stage) -> list[str]:
    return [f"hdfs://memory{stage.file(f'/data/{NAME}')}", "./"]


def data_cp(stage: Stage) -> list[str]:
    stage.world.files.mkdirs("/copy")
    return [f"hdfs://memory{stage.file(f'/data/{NAME}')}", "hdfs://memory/copy/"]


def data_sync(stage: Stage) -> list[str]:
    stage.world.files.mkdirs("/data")
    return [str(local_file(stage)), "hdfs://memory/data/set", "--dry-run"]


def data_compare(stage: Stage) -> list[str]:
    stage.file("/data/set/other")
    return [str(local_file(stage)), "hdfs://memory/data/set"]


def data_shard(stage: Stage) -> list[str]:
    stage.file("/data/set/a")
    stage.fail_with(NAME)
    return ["hdfs://memory/data/set", "hdfs://memory/data/shards"]


def data_verify(stage: Stage) -> list[str]:
    stage.file(f"/data/set/{NAME}.jsonl", b'{"a"\n')
    return ["/data/set"]


def data_ls(stage: Stage) -> list[str]:
    stage.file(f"/data/set/{NAME}")
    return ["/data/set"]


def data_locality(stage: Stage) -> list[str]:
    stage.file("/data/set/a")
    place = stage.world.files.block_locations("/data/set/a")[0]
    stage.patch.setattr(
        stage.world.files, "block_locations", lambda _: (replace(place, hosts=(TEXT,)),)
    )
    return ["/data/set"]


def listed(stage: Stage) -> str:
    """A corrupt file on the blacklist, with evidence."""
    path = stage.file(f"/data/set/{NAME}.jsonl", b'{"a"\n')
    shell = Shell(lambda **_: stage.world.client)
    with in_pipes():
        assert run(["blacklist", "add", path, "--evidence", NAME], shell) == 0
    return path


def blacklist_ls(stage: Stage) -> list[str]:
    listed(stage)
    return ["/data"]


def blacklist_add(stage: Stage) -> list[str]:
    return [stage.file(f"/data/set/{NAME}.jsonl")]


def blacklist_show(stage: Stage) -> list[str]:
    path = listed(stage)
    quarantine(stage.world.files, stage.world.files.stat(path), reason=NAME, by=NAME, at_s=1.0)
    return [path]


# ---- checkpoints -------------------------------------------------------------------------------


def saved(stage: Stage, *, is_torn: bool = False) -> str:
    """Checkpoints whose metrics and directory have such names."""
    home = f"file://{stage.folder}/{NAME}"
    one = Checkpointer(home, token=Token("me", (2,)), retention=Retention(9))
    for step in (10, 20):
        made = one.save(step, {"w": np.full(1000, step)}, metrics={NAME: 1 / step})
        assert made is not None
    if is_torn:
        path = Path(made.path) / made.shards[0].file
        path.write_bytes(path.read_bytes().replace(b"\x14", b"\x15"))
    return home


def ckpt_ls(stage: Stage) -> list[str]:
    return [saved(stage)]


def ckpt_verify(stage: Stage) -> list[str]:
    return [saved(stage, is_torn=True)]


def ckpt_restore(stage: Stage) -> list[str]:
    return [saved(stage), "--to", f"{stage.folder}/restored"]


def ckpt_prune(stage: Stage) -> list[str]:
    return [saved(stage, is_torn=True), "--keep", "1", "--yes"]


def ckpt_cp(stage: Stage) -> list[str]:
    return [saved(stage), f"file://{stage.folder}/to{NAME}"]


# ---- queues ------------------------------------------------------------------------------------


def queues_show(stage: Stage) -> list[str]:
    queue = f"root.{TEXT.replace('.', '')}"
    stage.world.rm.queue_names = [queue]
    stage.world.rm.add(APPLICATION, state="ACCEPTED", name=TEXT, user=TEXT, queue=queue)
    return []


def queues_why(stage: Stage) -> list[str]:
    queues_show(stage)
    return [APPLICATION]


def queues_lint(stage: Stage) -> list[str]:
    path = stage.folder / f"{NAME.replace('/', '')}.xml"
    path.write_text("<allocations><queue name='a'><wieght>1</wieght></queue></allocations>")
    return [str(path)]


def queues_convert(stage: Stage) -> list[str]:
    nodes = str(stage.folder / "nodes.json")
    save_snapshot(cluster(nodes=1), nodes)
    return [*no_such_file(stage), "--cluster", nodes]


def queues_what_if(stage: Stage) -> list[str]:
    """A trace in which a job is of a queue that no file has. Half a character is refused."""
    files = {name: str(stage.folder / name) for name in ("queues.xml", "trace.json", "nodes.json")}
    Path(files["queues.xml"]).write_text("<allocations><queue name='a'/></allocations>")
    ran = {"start_time": "2026-01-01 10:00:00", "end_time": "2026-01-01 10:01:00",
           "detail": [{"ip": "n1", "gpus": ["gpu0"]}]}  # fmt: skip
    rows = [
        {"vc": queue, "submitted_time": "2026-01-01 10:00:00", "attempts": [ran]}
        for queue in ("a", TEXT[:-1])
    ]
    Path(files["trace.json"]).write_text(json.dumps(rows))
    save_snapshot(cluster(nodes=1), files["nodes.json"])
    return [
        "--allocation", files["queues.xml"], "--baseline", files["queues.xml"], "--trace",
        files["trace.json"], "--cluster", files["nodes.json"],
    ]  # fmt: skip


def no_such_file(stage: Stage) -> list[str]:
    return [f"{NAME}.xml"]


def versions(stage: Stage) -> list[str]:
    """A version by somebody with such a name, of a file that was changed since."""
    target = stage.folder / "queues.xml"
    target.write_text("<allocations><queue name='a'/></allocations>")
    name = TEXT[:-1].replace("/", "")
    one = {"at_s": 1.0, "by": name, "digest": "0", "backup": f"{name}.bak", "undid": ""}
    Path(f"{target}.versions.jsonl").write_text(json.dumps(one) + "\n")
    return ["--to", str(target)]


# ---- history -----------------------------------------------------------------------------------


def history(stage: Stage) -> list[str]:
    store = HistoryStore(stage.world.files, stage.world.site.paths.history)
    store.put(record(application=APPLICATION, name=TEXT, queue=TEXT, user="me"))
    return []


def history_repair(stage: Stage) -> list[str]:
    # An application's id comes from the ResourceManager.
    key = "20231114-221320-000001"
    stage.world.job(state="KILLED", am=False, key=key)
    named = JobRecord(job_spec(name=TEXT), (), stage.world.directory(key), 1000.0, "0")
    stage.world.put(key, "job.json", encode(named))
    return []


# ---- set-up ------------------------------------------------------------------------------------


def spec_validate(stage: Stage) -> list[str]:
    # Of a value that is wrong the parser quotes the beginning only.
    path = stage.folder / f"{NAME}.yaml"
    value = json.dumps(NAME).replace("\\udb40\\udc41", "\\U000e0041")  # as YAML has it
    path.write_text(f"{SPEC}framework: {value}\n")
    return [str(path)]


def import_(stage: Stage) -> list[str]:
    role = {"commands": [TEXT], "resourcePerInstance": {"gpu": 1}}
    document = {"protocolVersion": 2, "taskRoles": {"worker": role}, TEXT: "", "type": TEXT}
    path = stage.folder / "job.yaml"
    path.write_text(json.dumps(document).replace("\\udb40\\udc41", "\\U000e0041"))  # as YAML has it
    return [str(path)]


def nodes(stage: Stage) -> list[str]:
    plan(stage)
    return []


def env_check(stage: Stage) -> list[str]:
    report = {
        "python": NAME, "executable": NAME, "node": NAME, "gpus": {NAME: [NAME]},
        "modules": {NAME: {"version": NAME}},
    }  # fmt: skip
    line = f"{MARK}{json.dumps(report)}\n".encode()
    stage.patch.setattr(Job, "logs", lambda *_, **__: iter([LogPiece("worker-0", 0, line)]))
    stage.patch.setattr(Job, "wait", lambda *_, **__: verdict())
    return [stage.spec()]


def env_ls(stage: Stage) -> list[str]:
    stage.file(f"/user/me/.yarnam/environments/{NAME}", b"x")
    return []


def env_gc(stage: Stage) -> list[str]:
    env_ls(stage)
    return ["--unused-for", "0s"]


def doctor(stage: Stage) -> list[str]:
    stage.world.rm.failure = NoPermission(TEXT, hint=TEXT)
    return []


def embedded(stage: Stage) -> ClusterPlan:
    shape = ClusterShape()
    paths = ClusterPaths(stage.folder / "home" / "clusters", "local")
    given = tuple(replace(node, gpu_model=TEXT) for node in assign_nodes(shape, 9, ()))
    made = ClusterPlan(
        cluster_id="test-123",
        name="local",
        shape=shape,
        slot=9,
        ports={**MASTER_PORTS, **NODE_PORTS},
        nodes=given,
        paths=paths,
        user="ada",
        java_home=stage.folder / "java",
        jar_folder=stage.folder / "jars",
        hadoop_version="3.4.1",
    )
    save_cluster(ClusterRecord(made, "starting"))
    return made


def cluster_status(stage: Stage) -> list[str]:
    embedded(stage)
    return []


def cluster_logs(stage: Stage) -> list[str]:
    made = replace(embedded(stage), nodes=assign_nodes(ClusterShape(), 9, ()))
    save_cluster(ClusterRecord(made, "ready"))
    log = made.paths.log("rm")
    log.parent.mkdir(parents=True)
    log.write_bytes(b"INFO " + NAME.replace("\n", "").encode() + b"\n")
    return ["rm"]


Prepare = Callable[[Stage], Sequence[str]]

CASES: dict[str, Prepare] = {
    "submit": submit,
    "plan": plan,
    "advise": advise,
    "status": status_,
    "watch": watch,
    "ps": ps,
    "top": top,
    "logs": logs,
    "events": events,
    "explain": explain,
    "exec": exec_,
    "debug": debug,
    "port-forward": port_forward,
    "notebook": notebook,
    "cp": cp,
    "scale": scale,
    "suspend": suspend,
    "resume": resume,
    "tensorboard": tensorboard,
    "tokens refresh": tokens_refresh,
    "kill": kill,
    "data put": data_put,
    "data get": data_get,
    "data cp": data_cp,
    "data sync": data_sync,
    "data compare": data_compare,
    "data shard": data_shard,
    "data verify": data_verify,
    "data ls": data_ls,
    "data locality": data_locality,
    "blacklist ls": blacklist_ls,
    "blacklist show": blacklist_show,
    "blacklist add": blacklist_add,
    "blacklist clear": lambda stage: [listed(stage)],
    "blacklist check": lambda stage: [listed(stage)],
    "blacklist export": lambda stage: [listed(stage)],
    "ckpt ls": ckpt_ls,
    "ckpt verify": ckpt_verify,
    "ckpt restore": ckpt_restore,
    "ckpt prune": ckpt_prune,
    "ckpt cp": ckpt_cp,
    "queues show": queues_show,
    "queues why": queues_why,
    "queues lint": queues_lint,
    "queues convert": queues_convert,
    "queues what-if": queues_what_if,
    "alerts": alerts,
    "policy ls": policy_ls,
    "policy show": policy_show,
    "policy set": policy_set,
    "policy explain": policy_explain,
    "policy cells": policy_cells,
    "queues diff": lambda stage: [*no_such_file(stage), "new.xml"],
    "queues apply": no_such_file,
    "queues undo": versions,
    "queues history": versions,
    "history list": history,
    "history show": lambda stage: [*history(stage), APPLICATION],
    "history repair": history_repair,
    "usage": history,
    "spec validate": spec_validate,
    "import": import_,
    "nodes": nodes,
    "nodes cordon": node_of,
    "nodes drain": lambda stage: [*node_of(stage), "--deadline", "30min"],
    "nodes undrain": lambda stage: node_of(stage)[:1],
    "queues stop": queue_of,
    "env check": env_check,
    "env ls": env_ls,
    "env gc": env_gc,
    "doctor": doctor,
    "cluster status": cluster_status,
    "cluster logs": cluster_logs,
}
"""Prepares text of others for the command; returns the command's arguments."""

MORE_CASES: dict[str, tuple[str, Prepare]] = {"submit --dry-run": ("submit", submit_dry_run)}
"""Further ways through a command."""

OWN_TEXT_ONLY = {
    "nodes uncordon": "the node, which is an argument",
    "queues resume": "the queue, which is an argument",
    "history export": "how many jobs it has written, and the path that it was given",
    "history compact": "how many records",
    "history prune": "how many records",
    "sim": "figures of a simulation",
    "sim compare": "figures; the names of policies and of the trace are arguments",
    "shell": "the bytes of the user's own terminal; the rest as exec",
    "ui": "its own address; the pages: tests/unit/web",
    "queues generate": "names of the user's own policy, which are checked",
    "spec schema": "a document of ours",
    "docs": "pages of ours",
    "spec init": "a template of ours",
    "cluster up": "names and figures of the user's own cluster; what daemons say is in its logs",
    "cluster down": "the cluster's name, which is checked",
    "cluster env": "paths of the user's own cluster, exact for a shell",
    "cluster restart": "a daemon's name, which is checked",
    "cluster stop": "a daemon's name, which is checked",
    "cluster start": "a daemon's name, which is checked",
    "cluster kill": "a daemon's name, which is checked",
    "cluster list": "names, which are checked, and addresses",
}
"""Commands whose results quote nobody, and why. Their errors are tried as everybody's."""

JSON_ONLY = {"blacklist export"}
"""They have no ``--json``: it is all they print."""

NOT_IN_JSON = {
    "submit": "warnings are for people",
    "submit --dry-run": "warnings are for people",
    "blacklist add": "the path is an argument",
    "queues lint": "the path is an argument",
    "policy set": "what was chosen before is for people",
    "import": "unknown keys are an error",
}


def leaves(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        if command.invoke_without_command:
            yield name, command
        for below, found in command.commands.items():
            yield from leaves(found, f"{name} {below}")
    else:
        yield name, command


COMMANDS = dict(
    leaf
    for name, entry in ENTRIES.items()
    for leaf in leaves(importlib.import_module(entry.module).command, name)
)

WAYS = {name: (name, prepare) for name, prepare in CASES.items()} | MORE_CASES


def test_every_command_is_tried() -> None:
    assert sorted([*CASES, *OWN_TEXT_ONLY]) == sorted(COMMANDS)


def shell_of(stage: Stage) -> Shell:
    def open_client(**settings: Any) -> Client:
        return Client(site=stage.world.site, on_progress=settings.get("on_progress"))

    return Shell(open_client)


def assert_harmless(text: str) -> None:
    for line in text.split("\n"):
        assert all(char.isprintable() or char == "\t" for char in line), repr(line)
        assert not line.startswith("forged"), text


def assert_shown(text: str, marks: Sequence[str] = MARKS) -> None:
    for mark in marks:
        assert mark in text, f"{mark} is not shown: {text}"


@pytest.mark.parametrize("way", WAYS)
def test_a_terminal_is_shown_it_escaped(stage: Stage, way: str) -> None:
    command, prepare = WAYS[way]
    arguments = [*command.split(), *prepare(stage)]
    with on_terminal() as terminal:
        run(arguments, shell_of(stage))
    assert "\x1b[41;30m" not in terminal.content
    text = OURS.sub("", terminal.content)
    assert_harmless(text)
    if way not in JSON_ONLY:
        assert_shown(text)


@pytest.mark.parametrize("way", WAYS)
def test_a_pipe_gets_it_escaped(stage: Stage, way: str) -> None:
    command, prepare = WAYS[way]
    arguments = [*command.split(), *prepare(stage)]
    with in_pipes() as (out, err):
        run(arguments, shell_of(stage))
    assert_harmless(out.content)
    assert_harmless(err.content)
    if way not in JSON_ONLY:
        assert_shown(out.content + err.content)


@pytest.mark.parametrize("way", WAYS)
def test_json_has_it_exactly_and_does_nothing_to_a_terminal(stage: Stage, way: str) -> None:
    command, prepare = WAYS[way]
    as_json = [] if way in JSON_ONLY else ["--json"]
    arguments = [*command.split(), *prepare(stage), *as_json]
    with in_pipes() as (out, err):
        run(arguments, shell_of(stage))
    assert_harmless(out.content)
    assert_harmless(err.content)
    if way not in NOT_IN_JSON:
        begin = NAME.partition("\r")[0]
        assert any(begin in text for text in strings(documents(out.content))), out.content


def documents(text: str) -> list[Any]:
    """One document, or one for each line."""
    try:
        return [json.loads(text)]
    except ValueError:
        return [json.loads(line) for line in text.splitlines()]


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_error_of_every_command_quotes_it_without_obeying(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise NoPermission(TEXT, hint=TEXT)

    command = COMMANDS[name]
    monkeypatch.setattr(command, "callback", refuse)
    if not isinstance(command, click.Group):  # its words would be the names of its commands
        monkeypatch.setattr(command, "params", [])
    monkeypatch.setattr(command, "context_settings", {"ignore_unknown_options": True})
    monkeypatch.setattr(command, "allow_extra_args", True)
    with on_terminal() as terminal:
        assert run(name.split()) == NoPermission.exit_code
    text = OURS.sub("", terminal.content)
    assert_harmless(text)
    assert_shown(text)
    with in_pipes() as (out, err):
        assert run([*name.split(), "--json"]) == NoPermission.exit_code
    assert_harmless(out.content)
    assert_harmless(err.content)
    assert json.loads(out.content)["error"]["message"] == TEXT


def test_of_a_process_a_terminal_gets_the_colours_and_a_pipe_every_byte(stage: Stage) -> None:
    data = f"\x1b[31mred\x1b[0m {NAME}".replace("\r", "").encode()
    stage.patch.setattr(Job, "logs", lambda *_, **__: iter([LogPiece("w", 0, data)]))
    stage.world.job()
    with on_terminal() as terminal:
        assert run(["logs", APPLICATION, "--rank", "0"], shell_of(stage)) == 0
    assert terminal.content.startswith("\x1b[31mred\x1b[0m \\x1b]52;c;Zm9v\\x07\\x1b[2J\x1b[41;30m")
    assert_harmless(re.sub(r"\nforged", "", OURS.sub("", terminal.content)))
    with in_pipes() as (out, _):
        assert run(["logs", APPLICATION, "--rank", "0"], shell_of(stage)) == 0
    assert out.content.encode() == data + b"\n"
