"""From a checked document to the core's JobSpec: defaults, proportions, resolved paths."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import gcd
from pathlib import Path as FilePath

from yarnam.model.job import (
    AmSpec,
    BlacklistSpec,
    CheckpointSpec,
    DataInput,
    ElasticSpec,
    Framework,
    GangSpec,
    InputMode,
    JobSpec,
    OnCorrupt,
    PackOrSpread,
    PlacementWish,
    RetrySpec,
    RoleSpec,
    Sharding,
    StagingSpec,
    StoringSpec,
    TopologyWish,
    VerifyInput,
)
from yarnam.model.resources import Resources
from yarnam.spec.checks import Reporter, default_input_name
from yarnam.spec.data_sections import Input
from yarnam.spec.document import Document
from yarnam.spec.patterns import split_pattern
from yarnam.spec.role_sections import ClientValue, GpuRange, Role, TaskRange
from yarnam.spec.shipping import Shipping
from yarnam.spec.tree import Path, Tree

# What a GPU brings along. Training containers of the published traces are cut by GPU (Philly: CPU
# and memory in proportion to GPUs); 8-GPU servers have 32 to 96 cores and 256 to 768 GiB, of which
# HDFS and YARN keep a part, so that 8 of these leave no GPU stranded on the smallest of them.
VCORES_PER_GPU = 4
MEMORY_PER_GPU_MIB = 16 * 1024
# Parameter servers, evaluators and preparation: one core and what a Python with NumPy needs.
VCORES_WITHOUT_GPU = 1
MEMORY_WITHOUT_GPU_MIB = 2 * 1024

FLEXIBLE_ROLE = "worker"
"""The single role of a job that says only ``gpus: N``."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a spec is read against."""

    base_dir: FilePath
    user: str
    environ: Mapping[str, str]
    check_paths: bool


def build(document: Document, tree: Tree, surroundings: Surroundings) -> JobSpec:
    """The job. Adds to the tree's problems; meaningful only when there are none."""
    say = Reporter(tree)
    shipping = Shipping(surroundings.base_dir, say, check_paths=surroundings.check_paths)
    variables = _Variables(surroundings.environ, say)
    env = variables.resolve(("env",), document.env)
    roles = _roles(document, variables)
    return JobSpec(
        name=document.name,
        queue=document.queue,
        user=surroundings.user,
        framework=Framework(document.framework),
        roles=roles,
        environment=shipping.environment(document),
        env=env,
        files=shipping.files(document),
        inputs=tuple(_input(source) for source in document.data.inputs),
        staging=_staging(document),
        output=document.data.outputs.path if document.data.outputs else "",
        storing=_storing(document),
        checkpoint=_checkpoint(document),
        placement=_placement(document),
        gang=_gang(document),
        retry=_retry(document),
        am=_am(document),
        flexible_shape=document.gpus is not None,
        duration_s=document.duration,
        tags=tuple(document.tags),
        secret_env=tuple(sorted({*document.secret_env, *variables.secret})),
        elastic=_elastic(document),
    )


class _Variables:
    """Resolves ``{from: client}``. What comes from there is never shown."""

    def __init__(self, environ: Mapping[str, str], say: Reporter) -> None:
        self._environ = environ
        self._say = say
        self.secret: set[str] = set()

    def resolve(
        self, path: Path, env: Mapping[str, str | ClientValue]
    ) -> tuple[tuple[str, str], ...]:
        return tuple((name, self._value((*path, name), value)) for name, value in env.items())

    def _value(self, path: Path, value: str | ClientValue) -> str:
        if isinstance(value, str):
            return value
        name = str(path[-1])
        self.secret.add(name)
        if name not in self._environ:
            self._say.say(path, f"{name} is not set in the submitting environment")
        return self._environ.get(name, "")


def _roles(document: Document, variables: _Variables) -> tuple[RoleSpec, ...]:
    if document.gpus is not None:
        # One task with all GPUs. The planner cuts it without changing the number of processes, so
        # only one process per GPU leaves it free.
        tasks, gpus = _flexible_shape(document.gpus)
        whole = Role.model_construct(tasks=tasks, gpus=gpus, processes="per-gpu")
        return (_role(FLEXIBLE_ROLE, whole, document, variables),)
    roles = document.roles or {}
    return tuple(_role(name, role, document, variables) for name, role in roles.items())


def _flexible_shape(gpus: int | GpuRange) -> tuple[int | TaskRange, int]:
    """Tasks, and GPUs of each. A range moves in steps of the largest task that divides both of
    its ends."""
    if isinstance(gpus, int):
        return 1, gpus
    step = max(1, gcd(gpus.min, gpus.max))
    return TaskRange.model_construct(min=gpus.min // step, max=gpus.max // step), step


def _role(name: str, role: Role, document: Document, variables: _Variables) -> RoleSpec:
    return RoleSpec(
        name=name,
        tasks=role.most_tasks,
        min_tasks=role.tasks.min if isinstance(role.tasks, TaskRange) else None,
        resources=_resources(role, document),
        command=tuple(role.command or document.command or ()),
        processes_per_task=_processes(role, document),
        env=variables.resolve(("roles", name, "env"), role.env),
        ports=(*document.ports, *role.ports),
        gpu_model=role.gpu_model or "",
    )


def _resources(role: Role, document: Document) -> Resources:
    if role.gpus:
        memory = role.gpus * (document.memory_per_gpu or MEMORY_PER_GPU_MIB)
        vcores = role.gpus * (document.vcores_per_gpu or VCORES_PER_GPU)
    else:
        memory, vcores = MEMORY_WITHOUT_GPU_MIB, VCORES_WITHOUT_GPU
    return Resources(role.memory or memory, role.vcores or vcores, role.gpus)


def _processes(role: Role, document: Document) -> int:
    if role.processes_per_task is not None:
        return role.processes_per_task
    # One TensorFlow process drives all GPUs of its task; TF_CONFIG names one address per process.
    usual = "per-task" if document.framework == "tensorflow" else "per-gpu"
    wanted = role.processes or document.processes or usual
    return role.gpus if wanted == "per-gpu" and role.gpus else 1


def _input(source: Input) -> DataInput:
    root, pattern = split_pattern(source.path)
    return DataInput(
        source.name or default_input_name(root),
        root,
        OnCorrupt(source.on_corrupt),
        source.max_skipped,
        VerifyInput(source.verify),
        mode=InputMode(source.mode),
        shard=Sharding(source.shard),
        pattern=pattern,
    )


def _staging(document: Document) -> StagingSpec:
    data = document.data
    return StagingSpec(timeout_s=data.staging_timeout, cache_max_mib=data.cache_max_size or 0)


def _checkpoint(document: Document) -> CheckpointSpec:
    if document.checkpoint is None:
        return CheckpointSpec()
    given = document.checkpoint
    best = given.best
    return CheckpointSpec(
        directory=given.directory,
        keep=given.keep,
        in_background=given.async_,
        every=given.every or 0,
        keep_every=given.keep_every or 0,
        best_metric=best.metric if best else "",
        best_mode=best.mode if best else "min",
        best_keep=best.keep if best else 1,
        restore=given.restore,
        spool_limit_s=given.spool.limit,
        spool_max_mib=given.spool.max_size or 0,
    )


def _storing(document: Document) -> StoringSpec:
    given = document.data.outputs
    if given is None:
        return StoringSpec()
    return StoringSpec(
        replace=given.replace,
        keep_on_failure=given.on_failure == "keep",
        timeout_s=given.timeout,
    )


def _placement(document: Document) -> PlacementWish:
    wish = document.placement
    return PlacementWish(
        node=TopologyWish(wish.locality.node),
        rack=TopologyWish(wish.locality.rack),
        strategy=PackOrSpread(wish.strategy),
        exclude_nodes=tuple(dict.fromkeys(wish.exclude_nodes)),
        max_nodes=wish.max_nodes,
        include_nodes=tuple(dict.fromkeys(wish.include_nodes)),
        gpu_model=wish.gpu_model,
        anti_affinity=_apart(wish.anti_affinity),
        near_data=wish.near_data,
    )


def _apart(items: Iterable[str | list[str]]) -> tuple[tuple[str, str], ...]:
    """As pairs, each once, the names of a pair in their order of letters."""
    pairs: dict[tuple[str, str], None] = {}
    for item in items:
        if isinstance(item, str):
            pairs[item, item] = None
            continue
        for one, other in itertools.combinations(sorted(set(item)), 2):
            pairs[one, other] = None
    return tuple(pairs)


def _gang(document: Document) -> GangSpec:
    gang = document.gang
    base, cap = gang.backoff.base, gang.backoff.cap
    if "cap" not in gang.backoff.model_fields_set:
        cap = max(base, cap)
    return GangSpec(
        # Where the whole wait is shorter than a default, the default gives way.
        hold_timeout_s=min(gang.hold_timeout, gang.wait_timeout),
        ask_timeout_s=min(gang.ask_timeout, gang.wait_timeout),
        launch_timeout_s=gang.launch_timeout,
        attempts=gang.attempts,
        backoff_base_s=min(base, cap),
        backoff_cap_s=cap,
        relax_after_attempts=gang.relax_after_attempts,
        look_before_ask=gang.look_before_ask,
        wait_timeout_s=gang.wait_timeout,
        priority=gang.priority,
        ticket=gang.ticket,
        recovery_timeout_s=gang.recovery_timeout,
    )


def _retry(document: Document) -> RetrySpec:
    retry = document.retry
    return RetrySpec(
        max_restarts=retry.max_restarts,
        on_user_failure=retry.on_user_failure,
        blacklist=BlacklistSpec(
            strikes=retry.blacklist.strikes,
            expiry_s=retry.blacklist.expiry,
            cool_down_s=retry.blacklist.cool_down,
            max_share=retry.blacklist.max_share,
        ),
    )


def _elastic(document: Document) -> ElasticSpec:
    roles = (document.roles or {}).values()
    is_elastic = isinstance(document.gpus, GpuRange)
    if not is_elastic and not any(isinstance(role.tasks, TaskRange) for role in roles):
        return ElasticSpec()
    elastic = document.elastic
    # Without a checkpoint to go on from, growing would throw away what has been trained.
    grow = document.checkpoint is not None if elastic.grow is None else elastic.grow
    return ElasticSpec(
        counts_gpus=is_elastic,
        patience_s=elastic.patience,
        grow=grow,
        grow_interval_s=elastic.grow_interval,
        min_run_s=elastic.min_run,
        shrink_after_s=elastic.shrink_after,
        checkpoint_grace_s=elastic.checkpoint_grace,
    )


def _am(document: Document) -> AmSpec:
    am = document.am
    return AmSpec(
        resources=Resources(am.memory, am.vcores, 0),
        attempts=am.attempts,
        agent_silence_s=am.agent_silence,
        orphan_timeout_s=am.orphan_timeout,
        stop_grace_s=am.stop_grace,
    )
