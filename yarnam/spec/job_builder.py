"""Builds the core's JobSpec from a checked document: defaults, proportions, resolved paths."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from math import gcd
from pathlib import Path as FilePath
from typing import Any, TypeVar, cast

from yarnam.core.frameworks.compat_tony import PORTS
from yarnam.core.frameworks.registry import framework_named
from yarnam.core.model import job_spec
from yarnam.core.model.job_status import JobState
from yarnam.core.model.resources import Resources, am_memory_mib
from yarnam.spec.checks import CHANNEL_URLS, Problems, default_input_name, is_channel_url
from yarnam.spec.failure_rules import rule_of
from yarnam.spec.role_checks import check_ending
from yarnam.spec.sections.data_sections import Input, split_pattern
from yarnam.spec.sections.document import Document
from yarnam.spec.sections.notify_section import Notify
from yarnam.spec.sections.role_sections import (
    ClientValue,
    GpuRange,
    Role,
    TaskRange,
)
from yarnam.spec.sections.section_base import Section
from yarnam.spec.shipping.shipped_sources import Shipping
from yarnam.spec.yaml_tree import Path, Tree

T = TypeVar("T")

# The resources that come with a GPU. Training containers of the published traces are cut by GPU
# (Philly: CPU and memory in proportion to GPUs); 8-GPU servers have 32 to 96 cores and 256 to 768
# GiB, of which HDFS and YARN keep a part, so that 8 of these leave no GPU stranded on the smallest
# of them.
VCORES_PER_GPU = 4
MEMORY_PER_GPU_MIB = 16 * 1024
# Parameter servers, evaluators and preparation: one core and what a Python with NumPy needs.
VCORES_WITHOUT_GPU = 1
MEMORY_WITHOUT_GPU_MIB = 2 * 1024

FLEXIBLE_ROLE = "worker"
"""The single role of a job that has only ``gpus: N``."""


_SERVERS = {
    "jupyterlab": ["python3", "-m", "jupyterlab"],
    "code-server": ["code-server"],
}


@dataclass(frozen=True, slots=True)
class LoadContext:
    """Where and for whom a spec is read."""

    base_dir: FilePath
    user: str
    environ: Mapping[str, str]
    check_paths: bool


def build(document: Document, tree: Tree, context: LoadContext) -> job_spec.JobSpec:
    """The job. Adds problems to the tree; the job is meaningful only when there are none."""
    problems = Problems(tree)
    shipping = Shipping(context.base_dir, problems, check_paths=context.check_paths)
    variables = _Variables(context.environ, problems)
    env = variables.resolve(("env",), document.env)
    roles = _roles(document, variables)
    files = shipping.files(document)
    shipping.check_scripts(document, files)
    job = job_spec.JobSpec(
        name=document.name,
        queue=document.queue.name,
        exact_queue=document.queue.placement == "exact",
        user=context.user,
        framework=document.framework,
        roles=roles,
        environment=shipping.environment(document),
        env=env,
        files=files,
        inputs=tuple(_input(source) for source in document.data.inputs),
        staging=_staging(document),
        output=document.data.outputs.path if document.data.outputs else "",
        storing=_storing(document),
        checkpoint=_checkpoint(document),
        placement=_placement(document),
        gang=_gang(document),
        retry=_retry(document),
        # A notebook waits for its user.
        hang=_from_section(job_spec.HangSpec, document.hang, detect=False)
        if document.notebook
        else _from_section(job_spec.HangSpec, document.hang),
        stragglers=_from_section(job_spec.StragglerSpec, document.stragglers),
        am=_am(document, roles),
        pre_run=_from_section(job_spec.PreRunSpec, document.pre_run, mode=_pre_run_mode(document)),
        flexible_shape=document.gpus is not None and document.notebook is None,
        duration_s=document.duration,
        time_limit_s=document.time_limit,
        depends_on=tuple(
            job_spec.Dependency(one.job, job_spec.JobCondition(one.when))
            for one in document.depends_on
        ),
        tags=tuple(document.tags),
        notify=tuple(
            _channel(("notify", index), given, context.environ, problems)
            for index, given in enumerate(document.notify)
        ),
        acls=job_spec.AccessSpec(tuple(document.acls.view), tuple(document.acls.modify)),
        idempotency_key=document.idempotency_key or "",
        secret_env=tuple(sorted({*document.secret_env, *variables.secret})),
        elastic=_elastic(document),
        stop_early=(
            None
            if document.stop_early is None
            else _from_section(job_spec.StopEarlySpec, document.stop_early)
        ),
        notebook=(
            None
            if document.notebook is None
            else _from_section(job_spec.NotebookSpec, document.notebook)
        ),
        compat=document.compat or "",
        keeps_files=document.keep == "forever",
        interactive=document.interactive,
    )
    _check_more_memory(job, problems)
    check_ending(job, problems)
    return job


class _Variables:
    """Resolves ``{from: client}``. Values from the client are never shown."""

    def __init__(self, environ: Mapping[str, str], problems: Problems) -> None:
        self._environ = environ
        self._problems = problems
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
            self._problems.add(path, f"{name} is not set in the submitting environment")
        return self._environ.get(name, "")


def _roles(document: Document, variables: _Variables) -> tuple[job_spec.RoleSpec, ...]:
    if document.notebook is not None:
        gpus = document.gpus if isinstance(document.gpus, int) else 0
        own = Role.model_construct(tasks=1, gpus=gpus)
        role = next(iter((document.roles or {}).values()), own)
        server = _SERVERS[document.notebook.server]
        role = role.model_copy(update={"command": server, "processes": "per-task"})
        return (_role(job_spec.NOTEBOOK_ROLE, role, document, variables),)
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


def _role(name: str, role: Role, document: Document, variables: _Variables) -> job_spec.RoleSpec:
    return job_spec.RoleSpec(
        name=name,
        tasks=role.most_tasks,
        min_tasks=role.tasks.min if isinstance(role.tasks, TaskRange) else None,
        resources=_resources(role, document),
        command=tuple(role.command or document.command or ()),
        processes_per_task=_processes(role, document),
        env=variables.resolve(("roles", name, "env"), role.env),
        ports=(
            *document.ports,
            *role.ports,
            *(PORTS if document.compat else ()),
            *((job_spec.NOTEBOOK_PORT,) if document.notebook else ()),
        ),
        gpu_model=role.gpu_model or "",
        node_label=_node_label(role, document),
        completion=_completion(role),
        service=role.service,
        early_exit=job_spec.EarlyExit(role.early_exit),
        optional=role.optional,
        after=tuple(
            job_spec.After(one.role, job_spec.StartCondition(one.until)) for one in role.all_after
        ),
        ready=_from_section(job_spec.ReadySpec, role.ready),
    )


def _node_label(role: Role, document: Document) -> str | None:
    """``None`` if all roles have the job's."""
    if all(one.node_label is None for one in (document.roles or {}).values()):
        return None
    return document.placement.node_label if role.node_label is None else role.node_label


def _completion(role: Role) -> job_spec.Completion:
    given = role.completion
    if isinstance(given, str):
        return job_spec.Completion(job_spec.CompletionRule(given))
    waits = given.wait == "all"
    if given.at_least is not None:
        return job_spec.Completion(job_spec.CompletionRule.AT_LEAST, given.at_least, waits)
    return job_spec.Completion(job_spec.CompletionRule(given.succeed or "all"), 0, waits)


def _channel(
    path: Path, given: Notify, environ: Mapping[str, str], problems: Problems
) -> job_spec.ChannelSpec:
    url = given.url or environ.get(given.url_from or "", "")
    if given.url_from and not url:
        problems.add(
            (*path, "url_from"), f"{given.url_from} is not set in the submitting environment"
        )
    elif not is_channel_url(given.kind, url):
        key = "url_from" if given.url_from else "url"
        problems.add((*path, key), f"must be {CHANNEL_URLS[given.kind]}")
    return job_spec.ChannelSpec(
        kind=job_spec.ChannelKind(given.kind),
        url=url,
        states=tuple(JobState(state.upper()) for state in given.states),
        to=tuple(given.to),
        sender=given.sender or "",
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
    usual = "per-task" if framework_named(document.framework).one_process else "per-gpu"
    wanted = role.processes or document.processes or usual
    return role.gpus if wanted == "per-gpu" and role.gpus else 1


def _input(source: Input) -> job_spec.DataInput:
    root, pattern = split_pattern(source.path)
    return job_spec.DataInput(
        source.name or default_input_name(root),
        root,
        job_spec.OnCorrupt(source.on_corrupt),
        source.max_skipped,
        job_spec.VerifyInput(source.verify),
        mode=job_spec.InputMode(source.mode),
        shard=job_spec.Sharding(source.shard),
        pattern=pattern,
    )


def _staging(document: Document) -> job_spec.StagingSpec:
    data = document.data
    return job_spec.StagingSpec(
        timeout_s=data.staging_timeout, cache_max_mib=data.cache_max_size or 0
    )


def _checkpoint(document: Document) -> job_spec.CheckpointSpec:
    # The submit gives a notebook without one its directory, which depends on the cluster.
    files = job_spec.NOTEBOOK_FILES if document.notebook else ""
    if document.checkpoint is None:
        return job_spec.CheckpointSpec(mirror=files)
    given = document.checkpoint
    best = given.best
    return _from_section(
        job_spec.CheckpointSpec,
        given,
        in_background=given.async_,
        in_memory=given.memory,
        best_metric=best.metric if best else "",
        best_mode=best.mode if best else "min",
        best_keep=best.keep if best else 1,
        spool_limit_s=given.spool.limit,
        spool_max_mib=given.spool.max_size or 0,
        mirror=files or (given.mirror or "").rstrip("/"),
        mirror_each=given.mirror_from == "each",
    )


def _storing(document: Document) -> job_spec.StoringSpec:
    given = document.data.outputs
    if given is None:
        return job_spec.StoringSpec()
    return _from_section(job_spec.StoringSpec, given, keep_on_failure=given.on_failure == "keep")


def _placement(document: Document) -> job_spec.PlacementSpec:
    given = document.placement
    return _from_section(
        job_spec.PlacementSpec,
        given,
        node=job_spec.TopologyConstraint(given.locality.node),
        rack=job_spec.TopologyConstraint(given.locality.rack),
        strategy=job_spec.PackOrSpread(given.strategy),
        check=job_spec.NodeCheck(given.check),
        exclude_nodes=tuple(dict.fromkeys(given.exclude_nodes)),
        include_nodes=tuple(dict.fromkeys(given.include_nodes)),
        anti_affinity=_role_pairs(given.anti_affinity),
    )


def _role_pairs(items: Iterable[str | list[str]]) -> tuple[tuple[str, str], ...]:
    """Each pair of roles once, the names within a pair in alphabetical order."""
    pairs: dict[tuple[str, str], None] = {}
    for item in items:
        if isinstance(item, str):
            pairs[item, item] = None
            continue
        for one, other in itertools.combinations(sorted(set(item)), 2):
            pairs[one, other] = None
    return tuple(pairs)


def _gang(document: Document) -> job_spec.GangSpec:
    gang = document.gang
    base, cap = gang.backoff.base, gang.backoff.cap
    if "cap" not in gang.backoff.model_fields_set:
        cap = max(base, cap)
    return _from_section(
        job_spec.GangSpec,
        gang,
        # A default never exceeds the total wait that the user allows.
        hold_timeout_s=min(gang.hold_timeout, gang.wait_timeout),
        ask_timeout_s=min(gang.ask_timeout, gang.wait_timeout),
        localize_timeout_s=min(gang.localize_timeout, gang.wait_timeout),
        backoff_base_s=min(base, cap),
        backoff_cap_s=cap,
    )


def _retry(document: Document) -> job_spec.RetrySpec:
    blacklist = _from_section(job_spec.BlacklistSpec, document.retry.blacklist)
    rules = tuple(rule_of(entry) for entry in document.retry.rules)
    given = document.retry.more_memory
    return _from_section(
        job_spec.RetrySpec,
        document.retry,
        blacklist=blacklist,
        rules=rules,
        more_memory=_from_section(job_spec.MoreMemorySpec, given) if given else None,
    )


def _check_more_memory(job: job_spec.JobSpec, problems: Problems) -> None:
    """``retry.more_memory.max`` must leave something to enlarge."""
    more = job.retry.more_memory
    path = ("retry", "more_memory", "max")
    if more is None or not more.max_mib or not job.roles:
        return
    involved = (path, ("roles",), ("memory_per_gpu",))
    if job.flexible_shape:
        text = "needs roles: with gpus alone the size of a container is not known before submit"
        problems.add(path, text, involved)
    elif not job.memory_levels:
        least = min(role.resources.memory_mib for role in job.roles)
        text = f"no container can grow: each has {least} MiB or more without it"
        problems.add(path, text, involved)


def _pre_run_mode(document: Document) -> job_spec.PreRunMode:
    """A size by advice is worth a pre-run, unless the spec says otherwise."""
    is_given = "pre_run" in document.model_fields_set
    if not is_given and _elastic(document).by_advice:
        return job_spec.PreRunMode.AUTO
    return job_spec.PreRunMode(document.pre_run.mode)


def _elastic(document: Document) -> job_spec.ElasticSpec:
    roles = (document.roles or {}).values()
    counts_gpus = isinstance(document.gpus, GpuRange)
    if not counts_gpus and not any(isinstance(role.tasks, TaskRange) for role in roles):
        return job_spec.ElasticSpec()
    elastic = document.elastic
    ranges = [document.gpus, *(role.tasks for role in roles)]
    chosen = [one for one in ranges if isinstance(one, TaskRange | GpuRange) and one.choose]
    batch = job_spec.Batch(chosen[0].batch) if chosen and chosen[0].batch else None
    # Without a checkpoint to resume from, a restart would throw away all training so far.
    is_kept = document.checkpoint is not None or not elastic.restart
    grow = is_kept if elastic.grow is None else elastic.grow
    schedule = tuple(
        job_spec.ScheduledSize(one.size, one.epoch, one.step) for one in elastic.schedule
    )
    return _from_section(
        job_spec.ElasticSpec, elastic, counts_gpus=counts_gpus, grow=grow, schedule=schedule,
        by_advice=bool(chosen), batch=batch,
    )  # fmt: skip


def _am(document: Document, roles: Iterable[job_spec.RoleSpec]) -> job_spec.AmSpec:
    am = document.am
    # The planner may make up to one task per GPU for a job that names only its GPUs.
    most = sum(
        role.tasks * (1 if document.roles else max(1, role.resources.gpus)) for role in roles
    )
    memory = am.memory or am_memory_mib(most, has_inputs=bool(document.data.inputs))
    return _from_section(job_spec.AmSpec, am, resources=Resources(memory, am.vcores, 0))


def _from_section(kind: Callable[..., T], section: Section, **others: Any) -> T:
    """A ``kind`` whose fields are the section's keys, apart from ``others``.

    A field has the key's name with its unit: ``hold_timeout_s`` is the key ``hold_timeout``. An
    omitted optional key keeps the field's default. So a new key needs only its declarations, in
    the section and in ``kind``.
    """
    values = dict(others)
    for field in fields(cast("Any", kind)):
        key = field.name.removesuffix("_s").removesuffix("_mib")
        given = getattr(section, key, None)
        if field.name not in values and given is not None:
            values[field.name] = given
    return kind(**values)
