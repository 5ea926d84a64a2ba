"""Limits on ApplicationMasters, users, containers and jobs."""

from __future__ import annotations

from collections.abc import Iterator

from yarnam.core.queues.amounts import GPU
from yarnam.core.queues.capacity.capacity_file import CAPACITY, CapacityQueue, Kind
from yarnam.core.queues.capacity.capacity_values import REFUSED, CapacityInput, error, warning
from yarnam.core.queues.lint.amount_rules import FEW_JOBS
from yarnam.core.queues.lint.lint_values import AM, Finding, about_gpus, site_xml

_AM = "maximum-am-resource-percent"
_FACTOR = "user-limit-factor"
_PERCENT = "minimum-user-limit-percent"


def am_percent_too_small(given: CapacityInput) -> Iterator[Finding]:
    """Each job of yarnam has an ApplicationMaster of its own; a tenth of a queue is for them by
    default. The limit is of what the queue can have at the moment: of its capacity when all queues
    are in use."""
    for queue in given.leaves():
        part = given.number_of(queue, _AM, 0.1)
        line = _defined_at(given, queue, _AM)
        if part <= 0:
            yield error(
                line,
                f"{_AM} of {queue.path} is {part:g}",
                "no ApplicationMaster starts beside another one",
                site_xml(queue.full_name(_AM), "0.5"),
            )
        elif part > 1:
            yield warning(
                line,
                f"{_AM} of {queue.path} is {part:g}",
                "it is a part, not per cent: ApplicationMasters may fill the queue, and then no "
                "gang has room",
                site_xml(queue.full_name(_AM), f"{min(1.0, part / 100):g}"),
            )
        elif given.cluster.gpus:
            yield from _few_jobs(given, queue, part, line)


def _few_jobs(
    given: CapacityInput, queue: CapacityQueue, part: float, line: int
) -> Iterator[Finding]:
    share = given.gpus[queue.path] / given.cluster.gpus
    memory, vcores = given.cluster.memory_mib * share, given.cluster.vcores * share
    jobs = int(min(memory * part // AM.memory_mib, vcores * part // AM.vcores))
    if share and jobs < min(FEW_JOBS, int(given.gpus[queue.path])):
        yield warning(
            line,
            f"{_AM} of {queue.path}, {part:g}, lets {jobs} jobs run",
            f"with all queues in use it has {memory:.0f} MiB and {vcores:.0f} vcores, and each job "
            f"has an ApplicationMaster of {AM.memory_mib} MiB; the others wait with free GPUs",
            site_xml(queue.full_name(_AM), f"{min(1.0, part * FEW_JOBS / max(1, jobs)):.2g}"),
        )


def user_limit_below_maximum(given: CapacityInput) -> Iterator[Finding]:
    """One user gets this many times the queue's capacity, however idle the cluster is. The default
    of 1 is below a gang wherever the queue is small."""
    for queue in given.leaves():
        factor = given.number_of(queue, _FACTOR, 1.0)
        line = _defined_at(given, queue, _FACTOR)
        most, share = queue.share("maximum-capacity"), queue.share()
        if factor == 0:
            yield error(
                line,
                f"{_FACTOR} of {queue.path} is 0",
                "a user gets one container and no more",
                site_xml(queue.full_name(_FACTOR), _enough(queue)),
            )
            continue
        if factor < 0 or share is None or share.kind is not Kind.PERCENT or not share.number:
            continue
        limit = most.number if most is not None and most.kind is Kind.PERCENT else 100.0
        own_gpus = given.gpus[queue.path] * factor
        if factor * share.number >= limit or own_gpus >= given.cluster.gpus > 0:
            continue
        is_small = given.largest_node and own_gpus < given.largest_node
        yield warning(
            line,
            f"{_FACTOR} of {queue.path} is {factor:g}: a user gets {_times(factor, share.number)} "
            f"of the {limit:g} % that the queue may use",
            (
                f"that is {own_gpus:.1f} GPUs, less than one node's {given.largest_node}: a "
                "larger gang is never complete, though the cluster is idle"
            )
            if is_small
            else "a larger gang of one user is never complete, though the cluster is idle",
            site_xml(queue.full_name(_FACTOR), _enough(queue)),
        )


def _times(factor: float, percent: float) -> str:
    return f"{factor * percent:g} %"


def _enough(queue: CapacityQueue) -> str:
    """The factor with which one user may use all that the queue may."""
    share, most = queue.share(), queue.share("maximum-capacity")
    limit = most.number if most is not None and most.kind is Kind.PERCENT else 100.0
    if share is None or share.kind is not Kind.PERCENT or share.number <= 0:
        return "100"
    return f"{-(-limit // share.number):g}"


def users_cut_gangs(given: CapacityInput) -> Iterator[Finding]:
    """UsersManager.computeUserLimit: below 100 the users of a queue share it while all of them ask;
    each is sure of this part only."""
    for queue in given.leaves():
        percent = given.number_of(queue, _PERCENT, 100.0)
        gpus = given.gpus[queue.path] * percent / 100
        if 0 < percent < 100 and gpus and gpus < given.largest_node:
            yield warning(
                _defined_at(given, queue, _PERCENT),
                f"{_PERCENT} of {queue.path} is {percent:g}: with {100 / percent:.0f} users each "
                f"has {gpus:.1f} GPUs",
                f"that is less than one node's {given.largest_node}: gangs of several users hold "
                "parts, and none of them is complete",
                site_xml(queue.full_name(_PERCENT), "100"),
            )


def container_without_gpus(given: CapacityInput) -> Iterator[Finding]:
    """A queue's ``maximum-allocation`` has 0 of what it does not name."""
    for queue in given.queues():
        setting = queue.settings.get("maximum-allocation")
        if setting is None:
            continue
        pairs = (piece.partition("=") for piece in setting.value.split(","))
        amounts = {name.strip(): value.strip() for name, _, value in pairs}
        if not all(value.strip("+").isdigit() for value in amounts.values()):
            yield error(
                setting.line,
                f"{setting.name} cannot be {setting.value!r}",
                f"it is name=amount, name=amount, without brackets and units. {REFUSED}",
            )
            continue
        most, node = int(amounts.get(GPU, "0")), given.largest_node
        if most < max(1, node):
            others = ",".join(f"{name}={value}" for name, value in amounts.items() if name != GPU)
            found = error if not most else warning
            yield about_gpus(
                found(
                    setting.line,
                    f"containers of {queue.path} have at most {most} GPUs",
                    f"a node has {node}: no task can have a whole one"
                    if most
                    else "what is not named is 0: no task can have a GPU",
                    site_xml(setting.name, f"{others},{GPU}={node or 8}"),
                )
            )


def container_below_task(given: CapacityInput) -> Iterator[Finding]:
    """No ApplicationMaster starts then; and no queue may have more than the scheduler."""
    keys = (("maximum-allocation-mb", AM.memory_mib, 8192), ("maximum-allocation-vcores", 1, 4))
    for queue in given.queues():
        for key, least, default in keys:
            setting = queue.settings.get(key)
            text = setting.value if setting is not None else ""
            # If maximum-allocation is set, it replaces these keys (seen on a real
            # CapacityScheduler).
            if setting is None or not text.isdigit() or "maximum-allocation" in queue.settings:
                continue
            most = given.number(f"yarn.scheduler.{key}", default)
            if int(text) < least:
                yield error(
                    setting.line,
                    f"{key} of {queue.path} is {text}",
                    f"an ApplicationMaster needs {AM.memory_mib} MiB and 1 vcore: no job starts",
                    site_xml(setting.name, f"{max(most, least):g}"),
                )
            elif given.settings is not None and int(text) > most:
                yield error(
                    setting.line,
                    f"{key} of {queue.path} is above that of the scheduler, {most:g}",
                    REFUSED,
                    site_xml(setting.name, f"{most:g}"),
                )


def no_jobs(given: CapacityInput) -> Iterator[Finding]:
    """Limits that let none run."""
    for queue in given.queues():
        for key in ("maximum-applications", "max-parallel-apps"):
            if given.number_of(queue, key, 1) == 0:
                yield error(
                    _defined_at(given, queue, key),
                    f"{key} of {queue.path} is 0",
                    "no job ever starts there",
                    site_xml(queue.full_name(key), "100"),
                )
        state = queue.settings.get("state")
        if state is not None and state.value.upper() == "STOPPED":
            yield warning(state.line, f"{queue.path} is stopped", "it takes no jobs")


def dealt_by_container(given: CapacityInput) -> Iterator[Finding]:
    """FairOrderingPolicy serves the job that has least memory first."""
    for queue in given.leaves():
        policy = queue.settings.get("ordering-policy")
        if policy is not None and policy.value.strip() == "fair":
            yield warning(
                policy.line,
                f"the ordering policy of {queue.path} is fair",
                "it deals containers out to all jobs in turn, by memory: of two gangs that do not "
                "fit together each gets a part, where jobs of others do not wait their turn",
                site_xml(policy.name, "fifo"),
            )


def _defined_at(given: CapacityInput, queue: CapacityQueue, key: str) -> int:
    """Where the value stands that holds for this queue."""
    whole = given.config.settings.get(f"{CAPACITY}.{key}")
    if key in queue.settings or whole is None:
        return queue.where(key, "capacity")
    return whole.line


RULES = (
    am_percent_too_small,
    user_limit_below_maximum,
    users_cut_gangs,
    container_without_gpus,
    container_below_task,
    no_jobs,
    dealt_by_container,
)
