"""Every place where bytes are decoded that another process wrote. A new place is one more line in
``PLACES``: what decodes, samples of what is honestly there, and the one error."""

from __future__ import annotations

import contextlib
import hashlib
import json
import pickle
import struct
import zlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import Any, cast

from google.protobuf.message import DecodeError

from hdfs_utils.blacklist import entries as blacklist
from hdfs_utils.checkpoints.format import manifest, shard_file
from hdfs_utils.checkpoints.frameworks import metadata_pickle, torch_state
from hdfs_utils.config import delegation_tokens
from hdfs_utils.config.delegation_tokens import DelegationToken
from hdfs_utils.errors import (
    BadConfig as BadHdfsConfig,
)
from hdfs_utils.errors import (
    CorruptData,
    InvalidPath,
    MalformedData,
    NotADirectory,
    NotFound,
    NotSupported,
    Unavailable,
)
from hdfs_utils.filesystem import FileStatus
from hdfs_utils.journal import format as journal
from hdfs_utils.outputs import committer
from hdfs_utils.outputs.merge import ListedFile, MergePlan, Move
from hdfs_utils.protocols import (
    datanode,
    keytab,
    namenode,
    protobuf,
    token_lifetime,
    untrusted,
    webhdfs_rest,
)
from hdfs_utils.protocols.checksums import crc32c
from hdfs_utils.transfer import staging_dir, tree_manifest
from hdfs_utils.validation import check_in_subprocess, hdfs_blocks
from hdfs_utils.validation.findings import FindingKind, Findings, Reason
from hdfs_utils.validation.sandbox import messages
from tests.fakes.cluster_view import cluster
from tests.unit.accounting.records import record as history_record
from tests.unit.agent.test_flight_recorder import RECORDED
from tests.unit.agent.test_task_job import JOB, TARGET
from yarnam.adapters.grpc import job_inputs, wake_sender
from yarnam.adapters.grpc.agent_session import AgentSession
from yarnam.adapters.hdfs import pre_run_store
from yarnam.adapters.skein import agent_assignment, response_log
from yarnam.adapters.yarn import allocation_xml, queue_tree, rest_parse
from yarnam.adapters.zookeeper import closed_places, queue_policies, ticket_nodes
from yarnam.adapters.zookeeper.session import Entry
from yarnam.agent import metrics_inbox
from yarnam.agent.data import input_gateway
from yarnam.agent.launch import flight_recorder, log_evidence
from yarnam.agent.resources import gpu_leases
from yarnam.client.environments import environment_check
from yarnam.client.environments.programs import environment_probe
from yarnam.client.functions import call_results
from yarnam.client.monitor.logs.aggregated_logs import parse_log_dump
from yarnam.client.monitor.yarn_status import verdict_from_yarn, yarn_status
from yarnam.client.planning.traces import trace_file, trace_formats
from yarnam.core.accounting.history_record import HistoryRecord
from yarnam.core.accounting.job_summary import HistoryFilter, summary_of
from yarnam.core.accounting.philly import philly_job
from yarnam.core.model.events import CancelRequested, Event
from yarnam.core.model.gpu_names import Inventory
from yarnam.core.model.ids import AskId, NodeId
from yarnam.core.model.job_status import JobStatus
from yarnam.core.model.outcomes import Verdict
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import Closure
from yarnam.core.model.tickets import Demand, PolicyTicket, RunningGang, Ticket
from yarnam.core.policies.chosen_policy import QueuePolicy, active_policy
from yarnam.core.queues.allocation_reading import read_allocations
from yarnam.core.queues.capacity import CapacityInput, lint_capacity
from yarnam.core.queues.capacity.capacity_file import read_settings_of
from yarnam.errors import BadConfig, WireMismatch
from yarnam.wire import codec, http_request
from yarnam.wire import protocol as wire_protocol
from yarnam.wire.pb import yarnam_pb2 as pb
from yarnam.wire.records import (
    AmRecord,
    EpochsRecord,
    IdempotencyRecord,
    InputEpochs,
    JobRecord,
    KeptSeries,
    NotifiedRecord,
    NotifyUrls,
    PreRunRecord,
    SeriesRecord,
    TicketRecord,
)
from yarnam.wire.shared import cluster_summary, history_index, inventory

Decode = Callable[[bytes], object]


@dataclass(frozen=True)
class Place:
    """``sealed`` puts the checksum or the packing around a body that was changed: whoever writes
    there computes it as well."""

    decode: Decode
    samples: tuple[bytes, ...]
    error: type[Exception] | tuple[type[Exception], ...] = ()
    sealed: Callable[[bytes], bytes] = bytes


def plain(value: object) -> bytes:
    return json.dumps(value).encode()


# ---- yarnam's records ---------------------------------------------------------------------------


def record(kind: Any, *values: Any) -> Place:
    """What is decoded can be encoded, and is the same then: nothing strange has come in."""

    def decode(data: bytes) -> None:
        # By their bytes: a value that is not a number differs from itself.
        written = codec.encode(codec.decode(data, kind), kind)
        assert codec.encode(codec.decode(written, kind), kind) == written

    return Place(decode, tuple(codec.encode(value, kind) for value in values), WireMismatch)


APPLICATION = rest_parse.YarnApplication(
    "application_1_0001", "train", "ada", "root.gpu", "FINISHED", "SUCCEEDED", started_at_s=1000.0
)
TICKET = Ticket(
    1, "application_1_0001", "train", "root.gpu", (Demand(Resources(4096, 2, 8), 4),), 1000.5,
    duration_s=60.0, excluded=(NodeId("gpu-1"),),
    policy=PolicyTicket("application_1_0001", 1, 900.0, 32, "root.gpu", rates=((8, 1.5),)),
)  # fmt: skip
GANG = RunningGang("application_1_0001", "root.gpu", 8, 2000.0, ((NodeId("gpu-1"), 8),), 1000.0)


def chosen_policy(data: bytes) -> None:
    """Jobs go by what they understand, or by arrival: never is there another error."""
    found = active_policy(queue_policies.decoded(Entry(data, 0, 7, 0)))
    assert found is None or found.version == 7


def closed_place(data: bytes) -> None:
    """What cannot be read closes nothing."""
    found = closed_places.decoded(Entry(data, 0, 7, 0))
    assert found is None or len(found.reason) <= closed_places.MAX_REASON


def task_job(data: bytes) -> None:
    from yarnam.agent import task_config

    class File:
        name = "yarnam-job.json"

        def open(self, mode: str) -> Any:
            import io

            return io.BytesIO(data)

        def exists(self) -> bool:
            return False

    task_config.read_task_job(cast("Any", File()), cast("Any", File()), "worker", "")


# ---- daemons ------------------------------------------------------------------------------------


def reply(parse: Callable[[dict[str, Any]], object]) -> Decode:
    return lambda data: parse(http_request.HttpReply(data, cast("Any", None)).json())


RM_ERRORS = (MalformedData, http_request.HttpError)
NODE = {"id": "n1:8041", "nodeHostName": "n1", "nodeHTTPAddress": "n1:8042", "rack": "/r",
        "state": "RUNNING", "lastHealthUpdate": 1000, "nodeLabels": ["gpu"],
        "totalResource": {"memory": 1024, "vCores": 4, "resourceInformations": {
            "resourceInformation": [{"name": "yarn.io/gpu", "value": 8}]}},
        "nodeAttributesInfo": {"nodeAttributeInfo": [{"name": "gpu-model", "value": "A100"}]},
}  # fmt: skip
FAIR = {"scheduler": {"schedulerInfo": {"type": "fairScheduler", "rootQueue": {
    "maxResources": {"memory": 9, "vCores": 9}, "childQueues": {"queue": [{
        "type": "fairSchedulerLeafQueueInfo", "queueName": "root.gpu", "maxApps": 5,
        "usedResources": {"memory": 1, "vCores": 1}, "numActiveApps": 1}]}}}}}  # fmt: skip
CAPACITY = {"scheduler": {"schedulerInfo": {"queues": {"queue": [
    {"queueName": "gpu", "queuePath": "root.gpu", "numActiveApplications": 1, "capacities": {
        "queueCapacitiesByPartition": [{"partitionName": "", "effectiveMaxResource": {
            "memory": 5, "vCores": 1}}]}}]}}}}  # fmt: skip
APP = {"id": "application_1_0001", "name": "train", "progress": 50.0, "startedTime": 1000,
       "finishedTime": 0, "applicationTags": "yarnam,yarnam-key", "runningContainers": 2,
}  # fmt: skip
ALLOCATIONS = b"""<?xml version="1.0"?>
<allocations><defaultQueueSchedulingPolicy>drf</defaultQueueSchedulingPolicy>
<queue name="a"><weight>2.0</weight><minResources>vcores=5%</minResources>
<maxResources>1 mb, 2 vcores</maxResources><maxAMShare>0.5</maxAMShare></queue>
<queuePlacementPolicy><rule name="default" queue="root.a"/></queuePlacementPolicy></allocations>"""
CONF = {"properties": [{"key": "yarn.scheduler.minimum-allocation-mb", "value": "512"}]}


class _Web(webhdfs_rest.WebHdfsClient):
    """A NameNode that answers so."""

    def __init__(self, body: bytes) -> None:
        super().__init__(("http://nn:9870",), "ada", 1.0)
        self.body = body

    def request(self, *_: str, **__: Any) -> bytes:
        return self.body


def webhdfs(data: bytes) -> None:
    from hdfs_utils.backends.webhdfs import WebHdfsFileSystem
    from hdfs_utils.filesystem import TimeLimits

    fs = WebHdfsFileSystem(_Web(data), "webhdfs://nn:9870", TimeLimits())
    for call in (fs.stat, fs.list, fs.delete, fs.block_locations, fs.checksum):
        with contextlib.suppress(Unavailable, NotADirectory, InvalidPath):
            call("/a")


STATUS = {"type": "FILE", "length": 5, "modificationTime": 1000, "owner": "ada", "group": "g",
          "permission": "644", "replication": 3, "blockSize": 1 << 27, "pathSuffix": "b",
}  # fmt: skip
REMOTE = {"RemoteException": {"exception": "FileNotFoundException", "message": "no file",
                              "javaClassName": "java.io.FileNotFoundException"}}  # fmt: skip


def agent_report(data: bytes) -> None:
    session = AgentSession(AskId(1, "worker", 0))
    session.order(pb.Directive(check=pb.Check(attempt=1, check=1)), {})
    for event in session.report(pb.AgentReport.FromString(data), 1000.0):
        assert codec.decode_event(codec.encode_event(event)) == event
    staging = session.staging
    if staging is not None:
        untrusted.decode_json(plain([staging.size, staging.left_s]), max_bytes=99)


REPORT = pb.AgentReport(
    protocol=1, ask="a1.worker.0", container="container_1", node="n1", state=pb.EXITED, attempt=1,
    processes=[pb.ProcessReport(kind="NON_ZERO", code=1, ended_at_s=5.0, last_lines=["x"],
                                metrics=pb.Metrics(at_s=1.0, step=5, values={"loss": 0.5}))],
    staging=pb.StagingReport(files=3, size=100, left_s=1.5),
).SerializeToString()  # fmt: skip
CHECKED = pb.AgentReport(
    protocol=1, ask="a1.worker.0", container="container_1", node="n1", state=pb.CHECKED, attempt=1,
    check=pb.CheckReport(check=1, cpu_mib_s=9.5, disk_mib_s=1.0, trouble=["full"], not_run=["GPU"],
                         links=[pb.LinkReport(node="n2", mib_s=5.0, rtt_ms=0.1, failure="x")]),
).SerializeToString()  # fmt: skip


# ---- Hadoop's own protocols -------------------------------------------------------------------


class _Node(namenode.NameNodeRpc):
    """A NameNode that answers so."""

    def __init__(self, reply: bytes) -> None:
        super().__init__((("nn", 8020),), ("ada", ""), 1.0)
        self.reply = reply

    def _ask(self, method: str, path: str, request: bytes) -> bytes:
        return self.reply


def name_node(data: bytes) -> None:
    node = _Node(data)
    calls: list[Callable[[], object]] = [
        lambda: node.blocks("/a"), lambda: list(node.list_located("/a")),
        lambda: node.entries("/a"), lambda: node.stat("/a"), node.free_space,
    ]  # fmt: skip
    for call in calls:
        # The lengths of blocks and file differ: what the NameNode says of the file is no use.
        with contextlib.suppress(Unavailable, NotFound, CorruptData):
            call()


message = protobuf.message
BLOCK = message(
    (1, message((1, "pool"), (2, 7), (3, 1), (4, 5))), (2, 0),
    (3, message((1, message((1, "127.0.0.1"), (2, "n1"), (4, 9866))), (8, "/r"))), (4, 0),
)  # fmt: skip
BLOCKS = message((1, message((1, 5), (2, BLOCK), (3, 0))))
INODE = message((1, 2), (2, "b"), (3, 5), (4, message((1, 0o644))), (5, "ada"), (6, "g"), (7, 1000),
                (10, 3), (11, 1 << 27), (12, message((1, 5), (2, BLOCK), (3, 0))))  # fmt: skip
LISTING = message((1, message((1, INODE), (2, 0))))
ANSWER = protobuf.delimited(message((1, 1), (2, 0))) + protobuf.delimited(LISTING)
REFUSED = protobuf.delimited(message((2, 1), (4, "java.io.IOException"), (5, "no")))


def name_node_frame(data: bytes) -> None:
    with contextlib.suppress(namenode._Remote):
        namenode._payload(data)


class _Stream:
    """A DataNode's answer, in pieces."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def recv(self, size: int) -> bytes:
        piece, self.data = self.data[:size], self.data[size:]
        return piece


def data_node(data: bytes) -> None:
    answer = datanode._read_delimited(cast("Any", _Stream(data)))
    block = namenode.Block(0, 5, (), False, b"", b"")
    datanode._block_crc(namenode.DataNode("n1", "127.0.0.1", 9866, "/r"), block, answer)


CHECKSUM = protobuf.delimited(message((1, 0), (3, message((3, b"\0\0\0*"), (4, 2)))))

TOKEN = DelegationToken("HDFS_DELEGATION_TOKEN", "ha-hdfs:x", b"\0\3ada\2rm\0\5\7" * 2, b"pw")
TOKENS = b"HDTS\0\1\1x" + delegation_tokens._written(TOKEN) + b"\0"
KEYTAB = b"\x05\x02" + struct.pack(">i", 24) + struct.pack(">HH", 1, 5) + b"R.COM" + (
    struct.pack(">H", 3) + b"ada" + bytes(10)
)  # fmt: skip


def token_in_url(data: bytes) -> None:
    token = delegation_tokens.from_url(data.decode("latin-1"))
    token_lifetime.usable_until_s(token)


def settings_file(data: bytes) -> None:
    config = read_settings_of(allocation_xml.parse_xml(data))
    list(lint_capacity(CapacityInput(config)))


def reported_settings(json: Any) -> None:
    config = queue_tree.capacity_config_of(json)
    if config is not None:
        list(lint_capacity(CapacityInput(config)))


WEIGHED = {"scheduler": {"schedulerInfo": {
    "type": "capacityScheduler", "queueName": "root", "queues": {"queue": [
        {"queueName": "gpu", "mode": "percentage", "capacity": 60.0, "maxCapacity": 90.0,
         "userLimitFactor": 1.0, "userLimit": 25, "state": "RUNNING", "maxApplications": 10,
         "configuredMaxAMResourceLimit": 0.1, "orderingPolicyInfo": "fifo",
         "maximumAllocation": {"memory": 8192, "vCores": 4}},
        {"queueName": "b", "mode": "weight", "weight": 2.0}]}}}}  # fmt: skip
SETTINGS = b"""<configuration>
<property><name>yarn.scheduler.capacity.root.queues</name><value>a,b</value></property>
<property><name>yarn.scheduler.capacity.root.a.capacity</name><value>60</value></property>
<property><name>yarn.scheduler.capacity.root.a.maximum-capacity</name><value>50%</value></property>
<property><name>yarn.scheduler.capacity.root.b.capacity</name><value>[memory=5,vcores=2]</value>
</property><property><name>yarn.scheduler.capacity.root.b.user-limit-factor</name><value>2w</value>
</property></configuration>"""
PROBED = {"python": "3.11.2", "executable": "/usr/bin/python3", "node": "n1",
          "modules": {"torch": {"version": "2.9"}, "x": {"error": "gone"}},
          "gpus": {"torch": ["A100"]}}  # fmt: skip
RESULT = plain({"ok": False, "type": "ValueError", "text": "x", "traceback": "y"})
WAKE_KEY = bytes(range(16))

# ---- files on HDFS ------------------------------------------------------------------------------

CHECKPOINT = manifest.Checkpoint(
    "/ckpt/step-1", 1, 1, 1000, 1,
    (manifest.Shard("shard-00000-of-00001", 200, 100, 5, (7,)),),
    (manifest.Entry("w", 0, 0, 96, manifest.ArrayPart("<f4", (4, 6), (0, 0), (4, 6))),
     manifest.Entry("torch.json", 0, 96, 4, None)),
    {"owner": "ada"}, {"loss": 0.5}, {"seed": 1 << 90},
)  # fmt: skip


def sealed_manifest(body: bytes) -> bytes:
    return body + b"\n" + hashlib.sha256(body).hexdigest().encode() + b"\n"


FOOTER = {"format": shard_file.FORMAT, "step": 1, "epoch": 1, "rank": 0, "world_size": 1,
          "data_length": 100, "chunk": manifest.CHUNK, "chunks": "0000002a",
          "entries": [{"name": "w", "offset": 0, "length": 96,
                       "array": ["<f4", [4, 6], [0, 0], [4, 6]]}]}  # fmt: skip


def shard_footer(footer: bytes) -> None:
    trailer = struct.pack("<II8s", len(footer), crc32c(footer), b"hdfsckp1")
    shard_file._decode("/ckpt/s", 100 + len(footer) + len(trailer), footer, trailer)


def sealed_segment(body: bytes) -> bytes:
    body = body.rstrip(b"\n") + b"\n"
    return body + b"%08x\n" % crc32c(body)


CLAIM = blacklist.new_claim(blacklist.State.PROVED, "ada", "bad-crc", "at 5", now_s=1000.0)
VERSION = blacklist.FileVersion(5, 1000, "x")
PLAN = MergePlan(("d",), (Move("w/a", "a", 1),), (ListedFile("a", 5, "w"),), 0)
FOUND = Findings()
FOUND.add(FindingKind.CONTENT, Reason.BAD_DATA, "cut", 5, 6)


def journal_header(data: bytes) -> None:
    journal.parse_segment(journal.encode(0, data) + journal.encode(1, b"x"), "/journal")


def listed(status: dict[str, Any]) -> bytes:
    return plain({"FileStatuses": {"FileStatus": [status]}})


assert FileStatus  # what the answers above become

PLACES: dict[str, Place] = {
    # ZooKeeper
    "ticket": record(Ticket, TICKET),
    "running gang": record(RunningGang, GANG),
    "names of tickets": Place(
        lambda data: [of(data.decode("latin-1")) for of in (
            ticket_nodes.job_of, ticket_nodes.am_attempt_of, ticket_nodes.number_of)],
        (b"/yarnam/queue/tickets/application_1_0001@1-0000000005", b"application_1_0001@2"),
    ),
    "policy of a queue": Place(
        chosen_policy,
        (codec.encode(QueuePolicy("tiresias", (("limits", "60,600"), ("least_run", "30")))),
         codec.encode(QueuePolicy("gittins", (("samples", "1,2,3"),), "ada", 1000.0))),
    ),
    "order of an administrator": Place(
        closed_place,
        (codec.encode(Closure("ann", 1000.0, "disk errors", 2000.0, was_closed=True)),),
    ),
    "gpu models": Place(
        inventory.decode_inventory, (plain({"nodes": {"A100": ["gpu-1", "gpu-2"]}}),),
        WireMismatch, zlib.compress,
    ),
    "gpu models, packed": Place(
        inventory.decode_inventory,
        (inventory.encode_inventory(Inventory({NodeId("gpu-1"): "A100"})),), WireMismatch,
    ),
    "summary of the cluster": Place(
        cluster_summary.decode_summary,
        (zlib.decompress(cluster_summary.encode_summary(cluster(used=3))),), WireMismatch,
        zlib.compress,
    ),
    "summary of the cluster, packed": Place(
        cluster_summary.decode_summary,
        (cluster_summary.encode_summary(cluster(used=3)),), WireMismatch,
    ),
    # other jobs' and earlier attempts' files
    "status": record(JobStatus, yarn_status(APPLICATION, "waits")),
    "verdict": record(Verdict, verdict_from_yarn(APPLICATION)),
    "job record": record(JobRecord, JobRecord(JOB, (TARGET,), "hdfs://x", 1.0, "0")),
    "AM record": record(AmRecord, AmRecord("application_1_0001", 1, "n1", 5)),
    "ticket record": record(TicketRecord, TicketRecord(number=5, taken_at_s=1000.0)),
    "history record": record(HistoryRecord, history_record(fails=True)),
    "history index": Place(
        lambda data: list(history_index.decode_index(data).rows(HistoryFilter(user="ann"))),
        (history_index.encode_index(history_index.HistoryIndex(
            ("2023-11.1.segment",), (summary_of(history_record()),),
            (history_index.Location(0, 0, 9),))),),
        WireMismatch,
    ),
    "idempotency record": record(
        IdempotencyRecord, IdempotencyRecord("20261121-000000-abcdef", "application_1_2")
    ),
    "passed pre-run": Place(
        lambda data: pre_run_store.passed_record(data, "0" * 64),
        (codec.encode(PreRunRecord("0" * 64, "application_1_2", 1000.0, 0.25, 700)),),
        WireMismatch,
    ),
    "notify urls": record(NotifyUrls, NotifyUrls(("https://hooks.example/T/B/x",))),
    "notified": record(NotifiedRecord, NotifiedRecord(((0, "RUNNING"),))),
    "series": record(SeriesRecord, SeriesRecord((KeptSeries("loss", ((1.0, 0.5),), "s"),))),
    "epochs": record(EpochsRecord, EpochsRecord((InputEpochs("set", (("a",),), ((1, 0),)),))),
    "event": record(Event, CancelRequested(1000.0, "ada", "enough")),
    "job of an agent": Place(
        task_job, (codec.encode(JobRecord(JOB, (TARGET,), "hdfs://x", 1.0, "0")),),
        (WireMismatch, BadConfig),
    ),
    "assignment of an agent": Place(
        agent_assignment._variables, (plain({"env": {"A": "1"}, "ask": "a1.worker.0"}),), BadConfig
    ),
    # daemons
    "nodes": Place(reply(rest_parse.nodes_of), (plain({"nodes": {"node": [NODE]}}),), RM_ERRORS),
    "queue tree": Place(
        reply(queue_tree.queue_tree_of), (plain(FAIR), plain(CAPACITY)), RM_ERRORS
    ),
    "allocation file": Place(
        lambda data: read_allocations(allocation_xml.parse_xml(data)), (ALLOCATIONS,), MalformedData
    ),
    "queues": Place(reply(rest_parse.queues_of), (plain(FAIR), plain(CAPACITY)), RM_ERRORS),
    "applications": Place(
        reply(rest_parse.applications_of), (plain({"apps": {"app": [APP]}}),), RM_ERRORS
    ),
    "RM settings": Place(reply(rest_parse.steps_of), (plain(CONF),), RM_ERRORS),
    "start of the RM": Place(
        reply(rest_parse.started_at_s), (plain({"startedOn": 1700000000000}),), RM_ERRORS
    ),
    "error of a daemon": Place(http_request.remote_message, (plain(REMOTE),)),
    "WebHDFS": Place(webhdfs, (
        plain({"FileStatus": STATUS}), listed(STATUS), plain({"boolean": True}),
        plain({"BlockLocations": {"BlockLocation": [
            {"offset": 0, "length": 5, "hosts": ["n1"], "corrupt": False}]}}),
        plain({"FileChecksum": {"algorithm": "COMPOSITE-CRC32C", "bytes": "0000002a00"}}),
    )),
    "error of WebHDFS": Place(
        lambda data: webhdfs_rest.remote_error(404, data, "/a"), (plain(REMOTE),)
    ),
    "fsck": Place(
        lambda data: hdfs_blocks.parse_fsck(data.decode(errors="replace")),
        (b"blk_123\t/a/b\nblk_-5\t77\t/c\nThe filesystem under path '/' has 2 CORRUPT files",),
        NotSupported,
    ),
    "container logs": Place(
        lambda data: list(parse_log_dump(data)),
        (b"Container: container_1 on n1\nLogType:am.log\nLogLength:5\nLogContents:\nhello\n",),
    ),
    "settings of the Capacity Scheduler": Place(
        settings_file, (SETTINGS,), MalformedData
    ),
    "report of the Capacity Scheduler": Place(
        reply(reported_settings), (plain(WEIGHED),), RM_ERRORS
    ),
    "attempts of an application": Place(
        reply(rest_parse.attempt_ends_of),
        (plain({"appAttempts": {"appAttempt": [{"id": 1, "finishedTime": 1000}]}}),), RM_ERRORS
    ),
    "containers of an attempt": Place(
        reply(rest_parse.tasks_by_node),
        (plain({"container": [{"assignedNodeId": "n1:8041", "priority": 5}]}),), RM_ERRORS
    ),
    "answer of a NameNode": Place(
        name_node_frame, (ANSWER, REFUSED), ValueError
    ),
    "what a NameNode says": Place(name_node, (BLOCKS, LISTING, message((1, INODE)))),
    "answer of a DataNode": Place(data_node, (CHECKSUM,), ValueError),
    "delegation token": Place(
        token_in_url, (TOKEN.for_url().encode(),), MalformedData
    ),
    "file of delegation tokens": Place(
        delegation_tokens.decode_file, (TOKENS,), BadHdfsConfig
    ),
    "keytab": Place(keytab.principals, (KEYTAB,), MalformedData),
    # agents and training processes
    "datagram that wakes an agent": Place(
        lambda data: wire_protocol.number_in_wake(WAKE_KEY, data),
        (wire_protocol.wake_datagram(WAKE_KEY, 5),),
    ),
    "where an agent is woken": Place(
        lambda data: wake_sender.wake_point(pb.WakePort.FromString(data)),
        (pb.WakePort(address="10.0.0.1", port=5, key=WAKE_KEY).SerializeToString(),), DecodeError,
    ),
    "result of a function": Place(
        call_results.read_header, (RESULT, plain({"ok": True})), MalformedData
    ),
    "report of an environment": Place(
        environment_check.read_report, (environment_probe.MARK.encode() + plain(PROBED) + b"\n",)
    ),
    "report of an agent": Place(agent_report, (REPORT, CHECKED), DecodeError),
    "outcome of an agent's check": Place(
        job_inputs.outcome_of, (plain({"verdict": "clean", "length": 5}),)
    ),
    "response of the ResourceManager": Place(response_log.decode_response, (
        plain({"kind": "preemption", "strict": ["container_1_0001_01_000002"], "negotiable": []}),
        plain({"kind": "completed", "container": "container_1_0001_01_000002",
               "exit_status": -102, "diagnostics": "preempted"}),
        plain({"kind": "node", "node": "n1:8041", "state": "DECOMMISSIONING", "timeout_s": 40}),
        plain({"kind": "failed", "diagnostics": "broken"})), MalformedData),
    "torch's error file": Place(
        log_evidence.parse_error_file,
        (
            plain({"message": {"message": "x", "extraInfo": {"timestamp": "17"}}}),
            plain({"message": "x"}),
        ),
        MalformedData,
    ),
    "dump of torch's flight recorder": Place(
        flight_recorder.parse_dump, (RECORDED,), MalformedData
    ),
    "metrics": Place(metrics_inbox.parse, (
        plain({"local_rank": 0, "at_s": 1.0, "step": 5, "values": {"loss": float("nan")}}),),
        MalformedData),
    "suspects": Place(
        lambda data: input_gateway.suspects_in(untrusted.decode_record(data, max_bytes=1 << 16)),
        (plain({"suspects": [{"path": "/a", "reason": "cut", "times": 2, "first": 1}]}),),
        MalformedData,
    ),
    "holder of a GPU": Place(gpu_leases._claim, (
        plain({"application": "application_1_1", "job": "train", "user": "ada"}),)),
    # checkpoints, outputs, transfers, blacklist
    "manifest": Place(
        lambda data: manifest.decode(data, "/ckpt/step-1", "/ckpt/step-1/manifest.json"),
        (manifest.encode(CHECKPOINT).rstrip(b"\n").rpartition(b"\n")[0],),
        CorruptData, sealed_manifest,
    ),
    "shard": Place(shard_footer, (plain(FOOTER),), CorruptData),
    "PyTorch's description of a checkpoint": Place(
        metadata_pickle.loads,
        (pickle.dumps(OrderedDict(w=metadata_pickle.Stored("w", "float32"), n=[1, 2.5])),),
        (MalformedData, NotSupported),
    ),
    "state of PyTorch": Place(
        torch_state._decode, (plain({"dict": [["epoch", {"plain": 5}]]}),), MalformedData
    ),
    "journal": Place(
        lambda data: journal.parse_segment(data, "/journal"),
        (journal.encode(0, journal.Header(5, {"journal-1-1.log": 7}).encode())
         + journal.encode_all(1, [b"one", b"two"]),), CorruptData,
    ),
    "header of a journal": Place(
        journal_header, (journal.Header(5, {"journal-1-1.log": 7}).encode(),), CorruptData
    ),
    "merge plan": Place(
        lambda data: committer._decode(data, "/out/.plan.json"), (plain(PLAN.plain()),),
        CorruptData,
    ),
    "journal of a transfer": Place(
        staging_dir.decode_segment, (b'["a",5,1000,42]\n["b",6,1000,43]',), MalformedData,
        sealed_segment,
    ),
    "manifest of a tree": Place(
        tree_manifest.decode_manifest,
        (tree_manifest.encode_manifest({"a/b": tree_manifest.ListedFile(5, 0x1F)}),),
        MalformedData,
    ),
    "blacklist": Place(
        blacklist.decode,
        (blacklist.encode([blacklist.Entry(blacklist.Key("/a", VERSION), frozenset([CLAIM]))]),),
        MalformedData,
    ),
    "trace of past jobs": Place(
        lambda data: trace_file.parse_trace(data, Resources(1024, 1, 1)),
        (plain([philly_job(history_record())]),), MalformedData,
    ),
    "trace, CSV": Place(
        lambda data: list(trace_formats.FORMATS["csv"].read(BytesIO(data))),
        (b"job,submit_s,run_s,gpus,tasks\na,1.5,60,4,2\n",), MalformedData,
    ),
    "trace, SWF": Place(
        lambda data: list(trace_formats.FORMATS["swf"].read(BytesIO(data))),
        (b"; Version: 2\n 1 10 5 60 2 -1 -1 4 100 -1 1 7 7 -1 3 -1 -1 -1\n",), MalformedData,
    ),
    "outcome of a check": Place(
        lambda data: check_in_subprocess.parse(data.decode(errors="replace")),
        (plain({"verdict": "corrupt", "reason": "bad-crc", "took_s": 0.5}),), MalformedData,
    ),
    "outcome of a decoder": Place(
        lambda data: messages.take_outcome(data, Findings()),
        (messages.outcome(FOUND, is_last=False),), MalformedData,
    ),
}  # fmt: skip
