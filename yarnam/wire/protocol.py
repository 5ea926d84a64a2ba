"""Versions and names of what crosses a process border, and how often agents call."""

from __future__ import annotations

import hmac
from dataclasses import dataclass

PROTOCOL = 1
"""The version of the gRPC conversations. A peer with another number is refused (WIRE_MISMATCH)."""

RECORD_VERSION = 1
"""The version of the JSON records: job.json, am.json, verdict.json, status.json, journal lines."""

TLS_NAME = "yarnam-job"
"""Name in the job's certificate; peers check it instead of a host name, which containers lack."""

# Files in a job's directory on HDFS.
JOB_FILE = "job.json"
AM_FILE = "am.json"
VERDICT_FILE = "verdict.json"
STATUS_FILE = "status.json"
CREDENTIALS_FILE = "credentials.pem"
ZOOKEEPER_FILE = "zookeeper-auth"
NOTIFY_FILE = "notify-urls.json"
KEYTAB_FILE = "user.keytab"
SECRET_FILES = (CREDENTIALS_FILE, ZOOKEEPER_FILE, NOTIFY_FILE, KEYTAB_FILE)
"""They are useless to the job after its end, but useful to any reader: they are removed then."""
INPUTS_FILE = "inputs.json.gz"
TICKET_FILE = "ticket.json"
"""The job's number in the ticket queue, for a later AM attempt."""
EPOCHS_FILE = "input-epochs.json"
"""The exclusions of each epoch of each input."""
NOTIFIED_FILE = "notified.json"
"""Which notifications have been sent."""
JOURNAL_DIRECTORY = "journal"
REQUESTS_DIRECTORY = "requests"
"""Requests of the owner's while no AM answered, for the next one."""
FENCE_DIRECTORY = "fence"
"""Empty files that keep older AM attempts from writing."""
HADOOP_CONF_FILE = "hconf.zip"
SHIPPED_DIRECTORY = "files"
"""The files that a job brings along."""
RESULTS_DIRECTORY = "results"
"""One file for each rank of a function's job: what it has returned."""
FETCHED_DIRECTORY = "results-fetched"
"""Empty; there once the owner has read the results, which may be removed with the job then."""
PRE_RUNS_DIRECTORY = "pre-runs"
"""In the user's own directory, not in the job's."""

# Names in a container's working directory (localized by YARN).
LOCAL_JOB_FILE = "yarnam-job.json"
LOCAL_CREDENTIALS_FILE = "yarnam-credentials.pem"
ZOOKEEPER_KERBEROS = "kerberos"
"""The credentials for ZooKeeper: by this process's ticket; with ``:FILE`` behind it by that
keytab."""
LOCAL_ZOOKEEPER_FILE = "yarnam-zookeeper-auth"
"""Optional, the AM's alone: credentials for ZooKeeper."""
LOCAL_NOTIFY_FILE = "yarnam-notify-urls.json"
"""Optional, the AM's alone: the URLs of the job's notifications."""
LOCAL_KEYTAB_FILE = "yarnam-user.keytab"
"""Optional, the AM's alone: by which it gets the job new delegation tokens."""
LOCAL_SECRETS_FILE = "yarnam-secrets.json"
"""Optional: the values of the job's ``secret_env``, a JSON object."""
LOCAL_INPUTS_FILE = "yarnam-inputs.json.gz"
"""Optional: the files of the job's inputs (``yarnam.wire.input_manifest``)."""
LOCAL_INPUTS = "yarnam-inputs"
"""Where an agent puts inputs that it brings to the node, each under its name."""
LOCAL_CODE = "code"
"""The user's code directory: the shipped archive of this name, unpacked."""
LOCAL_RUNTIME = "yarnam-runtime"
"""The unpacked runtime archive: ``lib`` (packages of AM and agent), ``sdk`` (yarnam.train)."""
LOCAL_PYTHON = "yarnam-python"
"""Optional: the interpreter that came with the job, unpacked."""
LOCAL_ENVIRONMENT = "environment"
LAYER_PREFIX = "environment-layer-"
"""Optional: layers of the environment, unpacked; the number of each follows."""
ENV_LAYERS = "YARNAM_ENVIRONMENT_LAYERS"
"""The absolute paths of the layers, with colons: the environment's interpreter reads it."""
LOCAL_HADOOP_CONF = "hconf"
LOCAL_INTERCEPTOR_FILE = "yarnam-allocate-interceptor.jar"
"""Optional, the AM's alone: the class in front of its heartbeats (``skein_specs.interceptor``)."""
LOCAL_RESPONSE_LOG = "yarnam-rm-responses.jsonl"
"""Optional, the AM's alone: what that class reads in the ResourceManager's responses."""
LOCAL_RELEASES_FILE = "yarnam-releases"
"""Optional, the AM's alone: containers of earlier AM attempts for that class to release."""
LOCAL_PAGE_URL_FILE = "yarnam-page-url"
"""Optional, the AM's alone: where its page is; that class reports it as the tracking URL."""

# Environment variables that yarnam's own processes read.
ENV_JOB_DIR = "YARNAM_JOB_DIR"
ENV_ASK = "YARNAM_ASK"
ENV_AM_ADDRESS = "YARNAM_AM_ADDRESS"
ENV_SERVICE = "YARNAM_SERVICE"
"""The Skein service (``Target.service``) that a container was started for: its size may differ
from its role's when the planner chose another shape."""
ENV_NODE_GPUS = "YARNAM_NODE_GPUS"
"""Device ids of the node, comma separated; ``sim:0,1`` for simulated ones."""
ENV_NODE_GPU_MODEL = "YARNAM_NODE_GPU_MODEL"
"""Model of those devices, where nvidia-smi is not to be asked."""

PORT_OF_COPIES = "checkpoint-memory"
"""The port of a task's holder of checkpoints in memory, beside the ports of its processes."""
ENV_COPY_HOLDERS = "YARNAM_CHECKPOINT_HOLDERS"
"""host:port of each holder of the gang, with commas: for the agent, not for the processes."""
ENV_COPY_PEER = "YARNAM_CHECKPOINT_PEER"
"""The one to which a task's copies go; empty if all tasks are on one node."""

CHECKPOINT_PAUSE = "checkpoint"
"""The pause (``yarnam.train.pause``) of a process that writes a checkpoint: a stop waits for it."""

ENV_RECORDER_SIZE = "TORCH_NCCL_TRACE_BUFFER_SIZE"
"""How many collectives torch's flight recorder keeps."""

ENV_RECORDER_PIPE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
"""The flight recorder's pipe: a stem, to which torch adds the rank and ``.pipe``."""

ENV_RECORDER_FILE = "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"
"""The file that it writes on a request by the pipe, and at a time-out: a stem, to which the rank is
added."""

ENV_ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
"""The file to which torch.distributed.elastic writes why a process failed. A job may set it
itself."""
ENV_PRE_RUN = "YARNAM_PRE_RUN"
"""Set, to ``1``, in a pre-run."""
ENV_SDK = "YARNAM_SDK"
"""The values that only the training SDK reads, as one JSON object: the AM writes those of the job
(``yarnam.wire.rendezvous``), the agent adds those of the container."""

APPLICATION_TAG = "yarnam"
JOB_KEY_TAG_PREFIX = "yarnam-job-"
"""The application tag from which a client finds the job's directory."""


def assignment_key(container: str) -> str:
    """Where, in Skein's key-value store, an early container finds what it is for. ``container``:
    Skein's name of it, as in ``n0_3`` (its SKEIN_CONTAINER_ID)."""
    return f"yarnam.ask.{container}"


# ---- how often the agents of a gang call ---------------------------------------------------------

HOLD_S = 2.0
"""The AM answers an agent's long poll at the latest after this: each call is a heartbeat."""

METRICS_PERIOD_S = 1.0
"""Reports of one agent with nothing but metrics are at least this far apart. Mostly there are none:
its polls take the metrics along."""

POLLS_PER_S, REPORTS_PER_S = 250.0, 200.0
"""The rates of all agents together. One call takes 0.4 to 0.5 ms of the AM's CPU
(tests/benchmarks/test_large_gang.py): a quarter of a core."""


HELD_CALLS = 200
"""In a gang of up to this many tasks every agent's poll waits at the AM, which takes memory there.
The agents of a larger gang poll periodically, and the AM wakes them for news."""


@dataclass(frozen=True, slots=True)
class ReportPace:
    """How often one agent calls. All in seconds."""

    hold_s: float
    """The duration of a long poll."""
    poll_after_s: float
    """The time between two polls of an agent that can be woken; with 0 it still holds its polls."""
    metrics_period_s: float
    """The least time between two reports of metrics."""


def report_pace(tasks: int, *, has_first_rank: bool, silence_s: float) -> ReportPace:
    """The pace of one agent of a gang of ``tasks``.

    ``has_first_rank``: it has the rank whose metrics stand for the job, which stay as fresh as in a
    small gang. ``silence_s``: after that an agent counts as lost; two polls fit in."""
    hold_s = max(HOLD_S, min(tasks / POLLS_PER_S, silence_s / 2))
    poll_after_s = hold_s if tasks > HELD_CALLS else 0.0
    period_s = max(METRICS_PERIOD_S, tasks / REPORTS_PER_S)
    return ReportPace(hold_s, poll_after_s, METRICS_PERIOD_S if has_first_rank else period_s)


# ---- how the AM wakes an agent -------------------------------------------------------------------

WAKE_KEY_BYTES = 16
_NUMBER_BYTES, _MAC_BYTES = 8, 16
WAKE_BYTES = _NUMBER_BYTES + _MAC_BYTES


def wake_datagram(key: bytes, number: int) -> bytes:
    """Shows the agent that chose ``key`` that its directive has this number. It can be lost, read
    and sent again by others, but a process without the key cannot make one for a newer
    directive."""
    text = number.to_bytes(_NUMBER_BYTES, "big")
    return text + _mac(key, text)


def number_in_wake(key: bytes, datagram: bytes) -> int | None:
    """The number of the directive; ``None`` if it was not made with this key."""
    text, mac = datagram[:_NUMBER_BYTES], datagram[_NUMBER_BYTES:]
    if len(datagram) != WAKE_BYTES or not hmac.compare_digest(mac, _mac(key, text)):
        return None
    return int.from_bytes(text, "big")


def _mac(key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, "sha256")[:_MAC_BYTES]
