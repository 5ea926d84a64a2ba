"""The policy a gang lives by: the limits that its job's spec sets, and the machine's own."""

from __future__ import annotations

from dataclasses import dataclass, replace

from yarnam.core.frameworks.registry import framework_named
from yarnam.core.model.ids import CHIEF_ROLE, PS_ROLE, NodeId
from yarnam.core.model.job_spec import (
    MIRROR_RESTORE_S,
    STOP_MARGIN_S,
    After,
    Completion,
    EarlyExit,
    ElasticSpec,
    GangSpec,
    JobSpec,
    NodeCheck,
    OnCorrupt,
    ReadySpec,
    RetrySpec,
    StragglerSpec,
)


@dataclass(frozen=True, slots=True)
class RolePolicy:
    """The condition that one role's tasks have to meet."""

    completion: Completion = Completion()
    is_service: bool = False
    early_exit: EarlyExit = EarlyExit.ACCEPT
    is_optional: bool = False
    after: tuple[After, ...] = ()
    ready: ReadySpec = ReadySpec()


@dataclass(frozen=True, slots=True)
class SizePolicy:
    """The sizes that one elastic role may have, in tasks, and when it changes."""

    role: str
    least: int
    most: int
    rules: ElasticSpec
    processes_per_task: int = 1
    leaves_on_notice: bool = False
    """In place: tasks that leave do so on their own once the first task knows."""

    def bounded(self, tasks: int) -> int:
        """The allowed size nearest to ``tasks``."""
        return max(self.least, min(self.most, tasks))


@dataclass(frozen=True, slots=True)
class GangPolicy:
    """The limits of a job's gang. Times in seconds."""

    roles: tuple[tuple[str, int], ...]
    """Processes wanted of each role; a plan must give exactly these, in whatever shape."""
    gang: GangSpec
    retry: RetrySpec
    stop_grace_s: float
    rules: tuple[tuple[str, RolePolicy], ...] = ()
    """The rules of roles that deviate from the usual rule, by which all tasks must succeed."""
    stragglers: StragglerSpec = StragglerSpec()
    check: NodeCheck = NodeCheck.OFF
    failure_grace_s: float = 2.0
    """The grace instead of ``stop_grace_s`` for processes that write no checkpoint when another
    part of the gang has failed."""
    excluded: tuple[NodeId, ...] = ()
    """Nodes that the job's own spec excludes for good."""
    included: tuple[NodeId, ...] = ()
    """The only nodes that tasks may use, by the job's own spec; empty for all."""
    gpu_models: tuple[tuple[str, str], ...] = ()
    """The GPUs wanted by each role that uses any: the words of a model, ``same`` or ``any``."""
    stop_margin_s: float = STOP_MARGIN_S
    time_limit_s: float | None = None
    """How long the gang may run, over all attempts; ``None`` if there is no limit."""
    explain_grace_s: float = 2.0
    """How long an unexplained end of a container waits for the agent's own report: the report
    goes straight to the AM, the end takes a heartbeat of NodeManager and AM (1 to 3 s)."""
    backoff_floor_s: float = 1.0
    """Least back-off: released GPUs are free again after 0.5 to 1.5 s (skein-on-yarn.md, 12)."""
    replan_cap_s: float = 30.0
    """The longest wait between two plan requests on a full cluster. A request is one call of the
    RM's REST API, so it may come more often than a failed attempt, which held others' GPUs."""
    search_interval_s: float = 3.0
    """Longest wait between two plan requests for a lost task: the rest of the gang is idle
    meanwhile, and a request is one call of the RM's REST API."""
    search_grant_share: float = 1 / 3
    """The share of the recovery timeout that an ask for a lost task waits for its grant before it
    is withdrawn and the planner is asked again. A node may be dead long before the RM notices (10
    min by default) and look free until then."""
    steady_run_s: float = 600.0
    """A gang that has run for this long does not count as preempted repeatedly: its back-off is
    reset."""
    transient_limit_s: float = 3600.0
    """How long failures that a program calls transient are retried for free, without a steady run
    or progress in between: a failure that lasts for an hour is not transient to its user."""
    tasks: int = 1
    """The most tasks wanted."""
    memory_levels: int = 0
    """How often the containers may be enlarged after a process ran out of memory."""
    leaves_out_inputs: bool = False
    """Some input's corrupt files are left out (``on_corrupt``)."""
    refusals_per_node: int = 3
    """Grants of one service on one unfit node before it is not asked for any more where YARN may
    choose that node again. One is chance, and other nodes may come free in between."""
    reasks_per_task: int = 4
    """Containers replaced within one attempt, per task, before the attempt is given up."""
    user_faults: int = 2
    """Agents that must blame the job's own files or settings: one alone may be a sick node."""
    size: SizePolicy | None = None
    """``None`` if the gang has one size."""
    staging_timeout_s: float = 0.0
    """0 if no inputs are brought to the nodes."""
    store_timeout_s: float | None = None
    """``None`` if the job has no outputs to store."""
    store_margin_s: float = 30.0
    """Time for storing to stop and report its progress: one call to HDFS (8 s), twice, and the
    extra time of a fail-over of its NameNode."""

    pre_run: GangPolicy | None = None
    """The limits of its pre-run, if it has one."""
    pre_run_limit_s: float = 0.0
    """In a pre-run's own policy: how long its process must run without a failure."""

    @property
    def attempts(self) -> int:
        """Failed acquisitions in a row that end the job; at least 1."""
        return max(1, self.gang.attempts)

    @property
    def ranges(self) -> tuple[tuple[str, int, int], ...]:
        """The fewest and the most processes of a whole gang, for each role."""
        size = self.size
        return tuple(
            (role, size.least * size.processes_per_task, most)
            if size is not None and role == size.role
            else (role, most, most)
            for role, most in self.roles
        )

    @property
    def tasks_order(self) -> tuple[str, ...]:
        """Roles in rank order: chief first, the others as the spec has them; behind those that
        train together ps, and last what is beside them: services, and roles that may fail."""

        def key(name: str) -> tuple[bool, bool, bool]:
            rules = self.rules_of(name)
            is_beside = (rules.is_service or rules.is_optional) and name != PS_ROLE
            return is_beside, name == PS_ROLE, name != CHIEF_ROLE

        return tuple(sorted((name for name, _ in self.roles), key=key))

    def rules_of(self, role: str) -> RolePolicy:
        """The completion rules of the role."""
        return next((rules for name, rules in self.rules if name == role), RolePolicy())


def policy_for(job: JobSpec) -> GangPolicy:
    """The limits that a job's spec sets."""
    return GangPolicy(
        roles=tuple((role.name, role.tasks * role.processes_per_task) for role in job.roles),
        tasks=job.tasks,
        gang=_gang_limits(job),
        retry=job.retry,
        stop_grace_s=job.am.stop_grace_s,
        time_limit_s=job.time_limit_s,
        rules=_rules(job),
        stragglers=job.stragglers,
        check=job.placement.check,
        failure_grace_s=min(job.am.failure_grace_s, job.am.stop_grace_s),
        size=size_policy(job),
        staging_timeout_s=job.staging.timeout_s if job.is_staged else 0.0,
        excluded=tuple(NodeId(node) for node in job.placement.exclude_nodes),
        included=tuple(NodeId(node) for node in job.placement.include_nodes),
        gpu_models=tuple(
            (role.name, role.gpu_model or job.placement.gpu_model)
            for role in job.roles
            if role.resources.gpus
        ),
        store_timeout_s=job.storing.timeout_s if job.output else None,
        memory_levels=job.memory_levels,
        leaves_out_inputs=any(given.on_corrupt is not OnCorrupt.FAIL for given in job.inputs),
        pre_run=_pre_run_policy(job) if job.pre_run.is_due else None,
    )


def _gang_limits(job: JobSpec) -> GangSpec:
    if not job.checkpoint.mirror:
        return job.gang
    return replace(job.gang, launch_timeout_s=job.gang.launch_timeout_s + MIRROR_RESTORE_S)


def _rules(job: JobSpec) -> tuple[tuple[str, RolePolicy], ...]:
    services = job.services
    rules = {
        role.name: RolePolicy(
            role.completion,
            role.name in services,
            role.early_exit,
            role.optional,
            role.after,
            role.ready,
        )
        for role in job.roles
    }
    return tuple((name, its) for name, its in rules.items() if its != RolePolicy())


def _pre_run_policy(job: JobSpec) -> GangPolicy:
    """A pre-run is a gang of one task."""
    return replace(policy_for(job.as_pre_run()), pre_run_limit_s=job.pre_run.time_limit_s)


def size_policy(job: JobSpec) -> SizePolicy | None:
    """The sizes of the job's elastic role; ``None`` if the gang has one size."""
    role = job.elastic_role
    if role is None or role.min_tasks is None:
        return None
    return SizePolicy(
        role.name,
        role.min_tasks,
        role.tasks,
        job.elastic,
        role.processes_per_task,
        job.resizes_in_place and framework_named(job.framework).leaves_on_notice,
    )
