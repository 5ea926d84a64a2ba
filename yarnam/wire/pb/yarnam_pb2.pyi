from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TaskState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_STATE_UNSPECIFIED: _ClassVar[TaskState]
    READY: _ClassVar[TaskState]
    STARTED: _ClassVar[TaskState]
    EXITED: _ClassVar[TaskState]
    UNABLE: _ClassVar[TaskState]
    STAGED: _ClassVar[TaskState]
    CHECKED: _ClassVar[TaskState]
TASK_STATE_UNSPECIFIED: TaskState
READY: TaskState
STARTED: TaskState
EXITED: TaskState
UNABLE: TaskState
STAGED: TaskState
CHECKED: TaskState

class AgentReport(_message.Message):
    __slots__ = ("protocol", "ask", "container", "node", "address", "log_address", "gpu_ids", "ports", "state", "attempt", "processes", "message", "user_fault", "nm_http_address", "gpu_model", "staging", "node_busy", "check", "stop_step", "ready", "wake", "group")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    LOG_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    GPU_IDS_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    USER_FAULT_FIELD_NUMBER: _ClassVar[int]
    NM_HTTP_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    GPU_MODEL_FIELD_NUMBER: _ClassVar[int]
    STAGING_FIELD_NUMBER: _ClassVar[int]
    NODE_BUSY_FIELD_NUMBER: _ClassVar[int]
    CHECK_FIELD_NUMBER: _ClassVar[int]
    STOP_STEP_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    WAKE_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    ask: str
    container: str
    node: str
    address: str
    log_address: str
    gpu_ids: _containers.RepeatedScalarFieldContainer[str]
    ports: _containers.RepeatedCompositeFieldContainer[NamedPort]
    state: TaskState
    attempt: int
    processes: _containers.RepeatedCompositeFieldContainer[ProcessReport]
    message: str
    user_fault: bool
    nm_http_address: str
    gpu_model: str
    staging: StagingReport
    node_busy: bool
    check: CheckReport
    stop_step: StopStep
    ready: bool
    wake: WakePort
    group: FormedGroup
    def __init__(self, protocol: _Optional[int] = ..., ask: _Optional[str] = ..., container: _Optional[str] = ..., node: _Optional[str] = ..., address: _Optional[str] = ..., log_address: _Optional[str] = ..., gpu_ids: _Optional[_Iterable[str]] = ..., ports: _Optional[_Iterable[_Union[NamedPort, _Mapping]]] = ..., state: _Optional[_Union[TaskState, str]] = ..., attempt: _Optional[int] = ..., processes: _Optional[_Iterable[_Union[ProcessReport, _Mapping]]] = ..., message: _Optional[str] = ..., user_fault: _Optional[bool] = ..., nm_http_address: _Optional[str] = ..., gpu_model: _Optional[str] = ..., staging: _Optional[_Union[StagingReport, _Mapping]] = ..., node_busy: _Optional[bool] = ..., check: _Optional[_Union[CheckReport, _Mapping]] = ..., stop_step: _Optional[_Union[StopStep, _Mapping]] = ..., ready: _Optional[bool] = ..., wake: _Optional[_Union[WakePort, _Mapping]] = ..., group: _Optional[_Union[FormedGroup, _Mapping]] = ...) -> None: ...

class FormedGroup(_message.Message):
    __slots__ = ("number", "tasks")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    number: int
    tasks: int
    def __init__(self, number: _Optional[int] = ..., tasks: _Optional[int] = ...) -> None: ...

class WakePort(_message.Message):
    __slots__ = ("address", "port", "key")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    address: str
    port: int
    key: bytes
    def __init__(self, address: _Optional[str] = ..., port: _Optional[int] = ..., key: _Optional[bytes] = ...) -> None: ...

class StopStep(_message.Message):
    __slots__ = ("step",)
    STEP_FIELD_NUMBER: _ClassVar[int]
    step: int
    def __init__(self, step: _Optional[int] = ...) -> None: ...

class CheckReport(_message.Message):
    __slots__ = ("check", "cpu_mib_s", "memory_mib_s", "disk_mib_s", "gpu_tflops", "links", "trouble", "not_run", "nccl_gib_s")
    CHECK_FIELD_NUMBER: _ClassVar[int]
    CPU_MIB_S_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MIB_S_FIELD_NUMBER: _ClassVar[int]
    DISK_MIB_S_FIELD_NUMBER: _ClassVar[int]
    GPU_TFLOPS_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    NOT_RUN_FIELD_NUMBER: _ClassVar[int]
    NCCL_GIB_S_FIELD_NUMBER: _ClassVar[int]
    check: int
    cpu_mib_s: float
    memory_mib_s: float
    disk_mib_s: float
    gpu_tflops: float
    links: _containers.RepeatedCompositeFieldContainer[LinkReport]
    trouble: _containers.RepeatedScalarFieldContainer[str]
    not_run: _containers.RepeatedScalarFieldContainer[str]
    nccl_gib_s: float
    def __init__(self, check: _Optional[int] = ..., cpu_mib_s: _Optional[float] = ..., memory_mib_s: _Optional[float] = ..., disk_mib_s: _Optional[float] = ..., gpu_tflops: _Optional[float] = ..., links: _Optional[_Iterable[_Union[LinkReport, _Mapping]]] = ..., trouble: _Optional[_Iterable[str]] = ..., not_run: _Optional[_Iterable[str]] = ..., nccl_gib_s: _Optional[float] = ...) -> None: ...

class LinkReport(_message.Message):
    __slots__ = ("node", "mib_s", "rtt_ms", "failure")
    NODE_FIELD_NUMBER: _ClassVar[int]
    MIB_S_FIELD_NUMBER: _ClassVar[int]
    RTT_MS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    node: str
    mib_s: float
    rtt_ms: float
    failure: str
    def __init__(self, node: _Optional[str] = ..., mib_s: _Optional[float] = ..., rtt_ms: _Optional[float] = ..., failure: _Optional[str] = ...) -> None: ...

class StagingReport(_message.Message):
    __slots__ = ("files", "files_done", "size", "done", "cached", "left_s", "trouble")
    FILES_FIELD_NUMBER: _ClassVar[int]
    FILES_DONE_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    CACHED_FIELD_NUMBER: _ClassVar[int]
    LEFT_S_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    files: int
    files_done: int
    size: int
    done: int
    cached: int
    left_s: float
    trouble: str
    def __init__(self, files: _Optional[int] = ..., files_done: _Optional[int] = ..., size: _Optional[int] = ..., done: _Optional[int] = ..., cached: _Optional[int] = ..., left_s: _Optional[float] = ..., trouble: _Optional[str] = ...) -> None: ...

class NamedPort(_message.Message):
    __slots__ = ("name", "port")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    name: str
    port: int
    def __init__(self, name: _Optional[str] = ..., port: _Optional[int] = ...) -> None: ...

class ProcessReport(_message.Message):
    __slots__ = ("local_rank", "rank", "pid", "ended", "kind", "code", "signal", "ended_at_s", "last_lines", "metrics", "finding", "stopped", "idle_s", "dumped", "stack", "step_s", "peak_memory_mib", "collective", "raised_age_s")
    LOCAL_RANK_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_S_FIELD_NUMBER: _ClassVar[int]
    LAST_LINES_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    FINDING_FIELD_NUMBER: _ClassVar[int]
    STOPPED_FIELD_NUMBER: _ClassVar[int]
    IDLE_S_FIELD_NUMBER: _ClassVar[int]
    DUMPED_FIELD_NUMBER: _ClassVar[int]
    STACK_FIELD_NUMBER: _ClassVar[int]
    STEP_S_FIELD_NUMBER: _ClassVar[int]
    PEAK_MEMORY_MIB_FIELD_NUMBER: _ClassVar[int]
    COLLECTIVE_FIELD_NUMBER: _ClassVar[int]
    RAISED_AGE_S_FIELD_NUMBER: _ClassVar[int]
    local_rank: int
    rank: int
    pid: int
    ended: bool
    kind: str
    code: int
    signal: int
    ended_at_s: float
    last_lines: _containers.RepeatedScalarFieldContainer[str]
    metrics: Metrics
    finding: Finding
    stopped: bool
    idle_s: float
    dumped: bool
    stack: _containers.RepeatedScalarFieldContainer[str]
    step_s: float
    peak_memory_mib: int
    collective: Collective
    raised_age_s: float
    def __init__(self, local_rank: _Optional[int] = ..., rank: _Optional[int] = ..., pid: _Optional[int] = ..., ended: _Optional[bool] = ..., kind: _Optional[str] = ..., code: _Optional[int] = ..., signal: _Optional[int] = ..., ended_at_s: _Optional[float] = ..., last_lines: _Optional[_Iterable[str]] = ..., metrics: _Optional[_Union[Metrics, _Mapping]] = ..., finding: _Optional[_Union[Finding, _Mapping]] = ..., stopped: _Optional[bool] = ..., idle_s: _Optional[float] = ..., dumped: _Optional[bool] = ..., stack: _Optional[_Iterable[str]] = ..., step_s: _Optional[float] = ..., peak_memory_mib: _Optional[int] = ..., collective: _Optional[_Union[Collective, _Mapping]] = ..., raised_age_s: _Optional[float] = ...) -> None: ...

class Collective(_message.Message):
    __slots__ = ("group", "operation", "state", "number")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    group: str
    operation: str
    state: str
    number: int
    def __init__(self, group: _Optional[str] = ..., operation: _Optional[str] = ..., state: _Optional[str] = ..., number: _Optional[int] = ...) -> None: ...

class Finding(_message.Message):
    __slots__ = ("rule", "failure", "role", "action", "blame", "line", "explanation", "hint", "weak", "at_s", "ruled_out", "written_at_s", "stream")
    RULE_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    BLAME_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    WEAK_FIELD_NUMBER: _ClassVar[int]
    AT_S_FIELD_NUMBER: _ClassVar[int]
    RULED_OUT_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_AT_S_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    rule: str
    failure: str
    role: str
    action: str
    blame: str
    line: str
    explanation: str
    hint: str
    weak: bool
    at_s: float
    ruled_out: _containers.RepeatedScalarFieldContainer[str]
    written_at_s: float
    stream: str
    def __init__(self, rule: _Optional[str] = ..., failure: _Optional[str] = ..., role: _Optional[str] = ..., action: _Optional[str] = ..., blame: _Optional[str] = ..., line: _Optional[str] = ..., explanation: _Optional[str] = ..., hint: _Optional[str] = ..., weak: _Optional[bool] = ..., at_s: _Optional[float] = ..., ruled_out: _Optional[_Iterable[str]] = ..., written_at_s: _Optional[float] = ..., stream: _Optional[str] = ...) -> None: ...

class Metrics(_message.Message):
    __slots__ = ("at_s", "step", "total_steps", "values", "pause", "age_s", "mirror")
    class ValuesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    AT_S_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    TOTAL_STEPS_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    PAUSE_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    MIRROR_FIELD_NUMBER: _ClassVar[int]
    at_s: float
    step: int
    total_steps: int
    values: _containers.ScalarMap[str, float]
    pause: str
    age_s: float
    mirror: MirrorReport
    def __init__(self, at_s: _Optional[float] = ..., step: _Optional[int] = ..., total_steps: _Optional[int] = ..., values: _Optional[_Mapping[str, float]] = ..., pause: _Optional[str] = ..., age_s: _Optional[float] = ..., mirror: _Optional[_Union[MirrorReport, _Mapping]] = ...) -> None: ...

class MirrorReport(_message.Message):
    __slots__ = ("number", "files", "size", "saved_at_s", "trouble")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SAVED_AT_S_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    number: int
    files: int
    size: int
    saved_at_s: float
    trouble: str
    def __init__(self, number: _Optional[int] = ..., files: _Optional[int] = ..., size: _Optional[int] = ..., saved_at_s: _Optional[float] = ..., trouble: _Optional[str] = ...) -> None: ...

class ReportAck(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DirectiveRequest(_message.Message):
    __slots__ = ("protocol", "ask", "container", "seen", "hold_ms", "tokens", "progress")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    HOLD_MS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    ask: str
    container: str
    seen: int
    hold_ms: int
    tokens: int
    progress: Progress
    def __init__(self, protocol: _Optional[int] = ..., ask: _Optional[str] = ..., container: _Optional[str] = ..., seen: _Optional[int] = ..., hold_ms: _Optional[int] = ..., tokens: _Optional[int] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("attempt", "processes")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    processes: _containers.RepeatedCompositeFieldContainer[ProcessReport]
    def __init__(self, attempt: _Optional[int] = ..., processes: _Optional[_Iterable[_Union[ProcessReport, _Mapping]]] = ...) -> None: ...

class Directive(_message.Message):
    __slots__ = ("number", "park", "launch", "stop", "leave", "prepare", "dump", "check", "tokens", "poll_after_ms")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    PARK_FIELD_NUMBER: _ClassVar[int]
    LAUNCH_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    LEAVE_FIELD_NUMBER: _ClassVar[int]
    PREPARE_FIELD_NUMBER: _ClassVar[int]
    DUMP_FIELD_NUMBER: _ClassVar[int]
    CHECK_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    POLL_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    number: int
    park: Park
    launch: Launch
    stop: Stop
    leave: Leave
    prepare: Launch
    dump: Dump
    check: Check
    tokens: Tokens
    poll_after_ms: int
    def __init__(self, number: _Optional[int] = ..., park: _Optional[_Union[Park, _Mapping]] = ..., launch: _Optional[_Union[Launch, _Mapping]] = ..., stop: _Optional[_Union[Stop, _Mapping]] = ..., leave: _Optional[_Union[Leave, _Mapping]] = ..., prepare: _Optional[_Union[Launch, _Mapping]] = ..., dump: _Optional[_Union[Dump, _Mapping]] = ..., check: _Optional[_Union[Check, _Mapping]] = ..., tokens: _Optional[_Union[Tokens, _Mapping]] = ..., poll_after_ms: _Optional[int] = ...) -> None: ...

class Tokens(_message.Message):
    __slots__ = ("number", "tokens")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    number: int
    tokens: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, number: _Optional[int] = ..., tokens: _Optional[_Iterable[str]] = ...) -> None: ...

class Park(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Launch(_message.Message):
    __slots__ = ("attempt", "role", "index", "processes", "shared_env", "hold_ms", "metrics_period_ms", "members")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    SHARED_ENV_FIELD_NUMBER: _ClassVar[int]
    HOLD_MS_FIELD_NUMBER: _ClassVar[int]
    METRICS_PERIOD_MS_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    role: str
    index: int
    processes: _containers.RepeatedCompositeFieldContainer[ProcessLaunch]
    shared_env: bytes
    hold_ms: int
    metrics_period_ms: int
    members: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, attempt: _Optional[int] = ..., role: _Optional[str] = ..., index: _Optional[int] = ..., processes: _Optional[_Iterable[_Union[ProcessLaunch, _Mapping]]] = ..., shared_env: _Optional[bytes] = ..., hold_ms: _Optional[int] = ..., metrics_period_ms: _Optional[int] = ..., members: _Optional[_Iterable[str]] = ...) -> None: ...

class SharedEnvironment(_message.Message):
    __slots__ = ("env",)
    class EnvEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ENV_FIELD_NUMBER: _ClassVar[int]
    env: _containers.ScalarMap[str, str]
    def __init__(self, env: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ProcessLaunch(_message.Message):
    __slots__ = ("rank", "local_rank", "env", "gpu_ids")
    class EnvEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RANK_FIELD_NUMBER: _ClassVar[int]
    LOCAL_RANK_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    GPU_IDS_FIELD_NUMBER: _ClassVar[int]
    rank: int
    local_rank: int
    env: _containers.ScalarMap[str, str]
    gpu_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, rank: _Optional[int] = ..., local_rank: _Optional[int] = ..., env: _Optional[_Mapping[str, str]] = ..., gpu_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class Stop(_message.Message):
    __slots__ = ("attempt", "grace_s", "reason", "idle_grace_s", "agree", "at_step")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    GRACE_S_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    IDLE_GRACE_S_FIELD_NUMBER: _ClassVar[int]
    AGREE_FIELD_NUMBER: _ClassVar[int]
    AT_STEP_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    grace_s: float
    reason: str
    idle_grace_s: float
    agree: bool
    at_step: int
    def __init__(self, attempt: _Optional[int] = ..., grace_s: _Optional[float] = ..., reason: _Optional[str] = ..., idle_grace_s: _Optional[float] = ..., agree: _Optional[bool] = ..., at_step: _Optional[int] = ...) -> None: ...

class Check(_message.Message):
    __slots__ = ("attempt", "check", "full", "limit_s", "peers")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    CHECK_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    PEERS_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    check: int
    full: bool
    limit_s: float
    peers: _containers.RepeatedCompositeFieldContainer[CheckPeer]
    def __init__(self, attempt: _Optional[int] = ..., check: _Optional[int] = ..., full: _Optional[bool] = ..., limit_s: _Optional[float] = ..., peers: _Optional[_Iterable[_Union[CheckPeer, _Mapping]]] = ...) -> None: ...

class CheckPeer(_message.Message):
    __slots__ = ("node", "address")
    NODE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    node: str
    address: str
    def __init__(self, node: _Optional[str] = ..., address: _Optional[str] = ...) -> None: ...

class Dump(_message.Message):
    __slots__ = ("attempt",)
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    def __init__(self, attempt: _Optional[int] = ...) -> None: ...

class Leave(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ("seen", "hold_ms")
    SEEN_FIELD_NUMBER: _ClassVar[int]
    HOLD_MS_FIELD_NUMBER: _ClassVar[int]
    seen: int
    hold_ms: int
    def __init__(self, seen: _Optional[int] = ..., hold_ms: _Optional[int] = ...) -> None: ...

class StatusReply(_message.Message):
    __slots__ = ("version", "status_json")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STATUS_JSON_FIELD_NUMBER: _ClassVar[int]
    version: int
    status_json: bytes
    def __init__(self, version: _Optional[int] = ..., status_json: _Optional[bytes] = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("by", "reason")
    BY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    by: str
    reason: str
    def __init__(self, by: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class CancelReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ScaleRequest(_message.Message):
    __slots__ = ("by", "tasks")
    BY_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    by: str
    tasks: int
    def __init__(self, by: _Optional[str] = ..., tasks: _Optional[int] = ...) -> None: ...

class ScaleReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SuspendRequest(_message.Message):
    __slots__ = ("by", "reason", "limit_s")
    BY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    by: str
    reason: str
    limit_s: float
    def __init__(self, by: _Optional[str] = ..., reason: _Optional[str] = ..., limit_s: _Optional[float] = ...) -> None: ...

class SuspendReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResumeRequest(_message.Message):
    __slots__ = ("by",)
    BY_FIELD_NUMBER: _ClassVar[int]
    by: str
    def __init__(self, by: _Optional[str] = ...) -> None: ...

class ResumeReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class InterruptRequest(_message.Message):
    __slots__ = ("by",)
    BY_FIELD_NUMBER: _ClassVar[int]
    by: str
    def __init__(self, by: _Optional[str] = ...) -> None: ...

class InterruptReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TokensReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class EventsRequest(_message.Message):
    __slots__ = ()
    FROM_FIELD_NUMBER: _ClassVar[int]
    def __init__(self, **kwargs) -> None: ...

class EventsReply(_message.Message):
    __slots__ = ("events_json",)
    EVENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    events_json: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, events_json: _Optional[_Iterable[bytes]] = ...) -> None: ...

class TailRequest(_message.Message):
    __slots__ = ("local_rank", "agent_log", "offset", "last_lines", "follow")
    LOCAL_RANK_FIELD_NUMBER: _ClassVar[int]
    AGENT_LOG_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_LINES_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    local_rank: int
    agent_log: bool
    offset: int
    last_lines: int
    follow: bool
    def __init__(self, local_rank: _Optional[int] = ..., agent_log: _Optional[bool] = ..., offset: _Optional[int] = ..., last_lines: _Optional[int] = ..., follow: _Optional[bool] = ...) -> None: ...

class LogChunk(_message.Message):
    __slots__ = ("data", "offset")
    DATA_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    offset: int
    def __init__(self, data: _Optional[bytes] = ..., offset: _Optional[int] = ...) -> None: ...

class SessionInput(_message.Message):
    __slots__ = ("request", "data", "end_of_data", "window", "signal", "alive")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    END_OF_DATA_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    ALIVE_FIELD_NUMBER: _ClassVar[int]
    request: SessionRequest
    data: bytes
    end_of_data: bool
    window: WindowSize
    signal: int
    alive: bool
    def __init__(self, request: _Optional[_Union[SessionRequest, _Mapping]] = ..., data: _Optional[bytes] = ..., end_of_data: _Optional[bool] = ..., window: _Optional[_Union[WindowSize, _Mapping]] = ..., signal: _Optional[int] = ..., alive: _Optional[bool] = ...) -> None: ...

class SessionRequest(_message.Message):
    __slots__ = ("protocol", "kind", "by", "ask", "local_rank", "command", "window", "terminal_type", "detached", "port", "forward", "path", "overwrite", "ports")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    LOCAL_RANK_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    TERMINAL_TYPE_FIELD_NUMBER: _ClassVar[int]
    DETACHED_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    FORWARD_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    OVERWRITE_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    kind: str
    by: str
    ask: str
    local_rank: int
    command: _containers.RepeatedScalarFieldContainer[bytes]
    window: WindowSize
    terminal_type: str
    detached: bool
    port: int
    forward: str
    path: bytes
    overwrite: bool
    ports: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, protocol: _Optional[int] = ..., kind: _Optional[str] = ..., by: _Optional[str] = ..., ask: _Optional[str] = ..., local_rank: _Optional[int] = ..., command: _Optional[_Iterable[bytes]] = ..., window: _Optional[_Union[WindowSize, _Mapping]] = ..., terminal_type: _Optional[str] = ..., detached: _Optional[bool] = ..., port: _Optional[int] = ..., forward: _Optional[str] = ..., path: _Optional[bytes] = ..., overwrite: _Optional[bool] = ..., ports: _Optional[_Iterable[int]] = ...) -> None: ...

class WindowSize(_message.Message):
    __slots__ = ("rows", "columns")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    rows: int
    columns: int
    def __init__(self, rows: _Optional[int] = ..., columns: _Optional[int] = ...) -> None: ...

class SessionOutput(_message.Message):
    __slots__ = ("opened", "data", "error_data", "end_of_data", "end", "alive")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    ERROR_DATA_FIELD_NUMBER: _ClassVar[int]
    END_OF_DATA_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    ALIVE_FIELD_NUMBER: _ClassVar[int]
    opened: SessionOpened
    data: bytes
    error_data: bytes
    end_of_data: bool
    end: SessionEnd
    alive: bool
    def __init__(self, opened: _Optional[_Union[SessionOpened, _Mapping]] = ..., data: _Optional[bytes] = ..., error_data: _Optional[bytes] = ..., end_of_data: _Optional[bool] = ..., end: _Optional[_Union[SessionEnd, _Mapping]] = ..., alive: _Optional[bool] = ...) -> None: ...

class SessionOpened(_message.Message):
    __slots__ = ("session", "pid", "log")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    LOG_FIELD_NUMBER: _ClassVar[int]
    session: str
    pid: int
    log: str
    def __init__(self, session: _Optional[str] = ..., pid: _Optional[int] = ..., log: _Optional[str] = ...) -> None: ...

class SessionEnd(_message.Message):
    __slots__ = ("kind", "code", "signal", "reason")
    KIND_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    kind: str
    code: int
    signal: int
    reason: str
    def __init__(self, kind: _Optional[str] = ..., code: _Optional[int] = ..., signal: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class FetchRequest(_message.Message):
    __slots__ = ("check", "size")
    CHECK_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    check: int
    size: int
    def __init__(self, check: _Optional[int] = ..., size: _Optional[int] = ...) -> None: ...

class FetchChunk(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class InputCaller(_message.Message):
    __slots__ = ("protocol", "ask", "container", "node")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    ask: str
    container: str
    node: str
    def __init__(self, protocol: _Optional[int] = ..., ask: _Optional[str] = ..., container: _Optional[str] = ..., node: _Optional[str] = ...) -> None: ...

class EpochRequest(_message.Message):
    __slots__ = ("caller", "input", "epoch", "attempt")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    caller: InputCaller
    input: str
    epoch: int
    attempt: int
    def __init__(self, caller: _Optional[_Union[InputCaller, _Mapping]] = ..., input: _Optional[str] = ..., epoch: _Optional[int] = ..., attempt: _Optional[int] = ...) -> None: ...

class EpochReply(_message.Message):
    __slots__ = ("excluded_files", "problem")
    EXCLUDED_FILES_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    excluded_files: _containers.RepeatedScalarFieldContainer[str]
    problem: str
    def __init__(self, excluded_files: _Optional[_Iterable[str]] = ..., problem: _Optional[str] = ...) -> None: ...

class SuspectRequest(_message.Message):
    __slots__ = ("caller", "suspects")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    SUSPECTS_FIELD_NUMBER: _ClassVar[int]
    caller: InputCaller
    suspects: _containers.RepeatedCompositeFieldContainer[SuspectInput]
    def __init__(self, caller: _Optional[_Union[InputCaller, _Mapping]] = ..., suspects: _Optional[_Iterable[_Union[SuspectInput, _Mapping]]] = ...) -> None: ...

class SuspectInput(_message.Message):
    __slots__ = ("path", "reason", "times", "first_record", "last_record")
    PATH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TIMES_FIELD_NUMBER: _ClassVar[int]
    FIRST_RECORD_FIELD_NUMBER: _ClassVar[int]
    LAST_RECORD_FIELD_NUMBER: _ClassVar[int]
    path: str
    reason: str
    times: int
    first_record: int
    last_record: int
    def __init__(self, path: _Optional[str] = ..., reason: _Optional[str] = ..., times: _Optional[int] = ..., first_record: _Optional[int] = ..., last_record: _Optional[int] = ...) -> None: ...

class SuspectReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CheckRequest(_message.Message):
    __slots__ = ("caller", "done", "hold_ms")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    HOLD_MS_FIELD_NUMBER: _ClassVar[int]
    caller: InputCaller
    done: CheckDone
    hold_ms: int
    def __init__(self, caller: _Optional[_Union[InputCaller, _Mapping]] = ..., done: _Optional[_Union[CheckDone, _Mapping]] = ..., hold_ms: _Optional[int] = ...) -> None: ...

class CheckDone(_message.Message):
    __slots__ = ("order", "outcome_json")
    ORDER_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_JSON_FIELD_NUMBER: _ClassVar[int]
    order: int
    outcome_json: bytes
    def __init__(self, order: _Optional[int] = ..., outcome_json: _Optional[bytes] = ...) -> None: ...

class CheckReply(_message.Message):
    __slots__ = ("order", "uri", "limit_s")
    ORDER_FIELD_NUMBER: _ClassVar[int]
    URI_FIELD_NUMBER: _ClassVar[int]
    LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    order: int
    uri: str
    limit_s: float
    def __init__(self, order: _Optional[int] = ..., uri: _Optional[str] = ..., limit_s: _Optional[float] = ...) -> None: ...
