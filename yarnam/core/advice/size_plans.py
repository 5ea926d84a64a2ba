"""Ranks the sizes that a gang could have by the user's aim. The caller brings the sizes, where each
would run and how long it would wait; this room sees neither the planner nor the queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import inf

from yarnam.core.advice.predictions import MeasuredProgram, Span, StepPrediction, predict
from yarnam.core.model.job_spec import Batch

WORTH = 1.1
"""For the fewest GPUs: a size is as good as the soonest one if it takes at most this multiple of
its time. Our own choice."""

MOST_PLANS = 5

NETWORK_SHARE = 0.25
"""A step that spends more than this on the network is said to."""


class Aim(Enum):
    GPUS = "gpus"
    """The fewest GPUs that end within 10 % of the soonest time."""
    FINISH = "finish"
    """The soonest end, the wait included."""
    COST = "cost"
    """The fewest GPU-hours."""


@dataclass(frozen=True, slots=True)
class Option:
    """A size that the gang could have. Waits are seconds from now."""

    size: int
    """The tasks of the role that is resized, or its GPUs where the planner shapes its tasks."""
    gpus: int
    processes: int
    nodes: int
    is_even: bool = True
    """Whether each of its nodes has as many of its processes."""
    is_own: bool = False
    """Whether it is the size that the spec asks for."""
    wait_s: float | None = None
    latest_s: float | None = None
    no_fit: str = ""
    """Why it can never run."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One option with its predictions; ``None`` means unknown."""

    option: Option
    step_s: Span | None = None
    is_measured: bool = False
    speedup: float | None = None
    """The training's speed, in multiples of one process."""
    efficiency: float | None = None
    """The speedup for each process."""
    network_share: float | None = None
    """The part of a step that waits for the network."""
    run_s: Span | None = None
    """The whole training; ``None`` if its number of steps is unknown."""
    finish_s: Span | None = None
    """Seconds from now until it would have ended."""
    gpu_hours: Span | None = None
    reason: str = ""
    why_unknown: str = ""
    """Why only a lower bound of the step is known."""


@dataclass(frozen=True, slots=True)
class Advice:
    """At most ``MOST_PLANS`` plans, the advised one first if there is one."""

    plans: tuple[Plan, ...]
    is_advised: bool
    """Whether enough was known to advise the first plan."""
    aim: Aim
    batch: Batch
    basis: str
    """The measured runs behind the predictions."""
    notes: tuple[str, ...] = ()


def advise(
    program: MeasuredProgram,
    options: Sequence[Option],
    *,
    aim: Aim = Aim.GPUS,
    basis: str = "",
    work: float | None = None,
    notes: Sequence[str] = (),
) -> Advice:
    """``work``: the steps of the training, times the processes if each has its own batch; ``None``
    if unknown."""
    plans = [_plan(program, option, work) for option in options]
    runnable = [plan for plan in plans if not plan.option.no_fit]
    known = [plan for plan in runnable if _is_choosable(plan)]
    chosen = _chosen(program, known, aim)
    others = sorted(
        (plan for plan in plans if plan is not chosen),
        key=lambda plan: (
            not plan.option.is_own,
            bool(plan.option.no_fit),
            _rank(program, plan, aim),
        ),
    )
    shown = [*([] if chosen is None else [chosen]), *others][:MOST_PLANS]
    shown.sort(key=lambda plan: bool(plan.option.no_fit))
    further = tuple(notes) + tuple(_further(program, runnable, chosen))
    batch = Batch.GLOBAL if program.is_batch_shared else Batch.PER_PROCESS
    return Advice(tuple(shown), chosen is not None, aim, batch, basis, further)


def _plan(program: MeasuredProgram, option: Option, work: float | None) -> Plan:
    if option.no_fit:
        return Plan(option, reason=option.no_fit)
    found = predict(program, option.nodes, option.processes)
    if found is None:
        return Plan(option, reason="nothing of this program has been measured")
    alone = predict(program, 1, 1)
    speedup = _speedup(program, option, found, alone)
    plan = Plan(
        option,
        found.step_s,
        found.is_measured,
        speedup,
        None if speedup is None else speedup / option.processes,
        _network_share(option, found),
    )
    if work is not None:
        run_s = found.step_s.times(work if program.is_batch_shared else work / option.processes)
        wait = Span(option.wait_s or 0.0, option.wait_s, option.latest_s)
        plan = replace(
            plan,
            run_s=run_s,
            finish_s=run_s.plus(wait),
            gpu_hours=run_s.times(option.gpus / 3600.0) if option.gpus else None,
        )
    return replace(plan, reason=_reason(plan, found), why_unknown=found.why_unknown)


def _speedup(
    program: MeasuredProgram, option: Option, found: StepPrediction, alone: StepPrediction | None
) -> float | None:
    if option.processes == 1:
        return 1.0
    if alone is None or alone.step_s.likely is None or not found.step_s.likely:
        return None
    ratio = alone.step_s.likely / found.step_s.likely
    return ratio if program.is_batch_shared else ratio * option.processes


def _network_share(option: Option, found: StepPrediction) -> float | None:
    step_s = found.step_s.likely
    if option.processes == 1:
        return 0.0
    if step_s is None or not step_s or found.compute_s is None:
        return None
    return min(1.0, max(0.0, 1.0 - found.compute_s / step_s))


# ---- the choice ----------------------------------------------------------------------------------


def _is_choosable(plan: Plan) -> bool:
    """Uneven gangs are up to twice as slow as their even neighbours (docs/evidence/advice.md)."""
    is_known = plan.step_s is not None and plan.step_s.likely is not None
    return is_known and (plan.option.is_even or plan.option.is_own)


def _time_s(program: MeasuredProgram, plan: Plan) -> float:
    """The end of the training, or what is proportional to its length."""
    if plan.finish_s is not None and plan.finish_s.likely is not None:
        return plan.finish_s.likely
    if plan.step_s is None or plan.step_s.likely is None:
        return inf
    return plan.step_s.likely * (1.0 if program.is_batch_shared else 1.0 / plan.option.processes)


def _cost(program: MeasuredProgram, plan: Plan) -> float:
    if plan.step_s is None or plan.step_s.likely is None:
        return inf
    share = 1.0 if program.is_batch_shared else 1.0 / plan.option.processes
    return plan.step_s.likely * share * max(plan.option.gpus, 1)


def _rank(program: MeasuredProgram, plan: Plan, aim: Aim) -> tuple[float, float, int]:
    time_s, cost = _time_s(program, plan), _cost(program, plan)
    first, second = (cost, time_s) if aim is Aim.COST else (time_s, cost)
    return first, second, plan.option.gpus


def _chosen(program: MeasuredProgram, known: Sequence[Plan], aim: Aim) -> Plan | None:
    if not known or len(program.sizes) < 2:
        return None
    best = min(known, key=lambda plan: _rank(program, plan, aim))
    if aim is not Aim.GPUS:
        return best
    limit_s = _time_s(program, best) * WORTH
    enough = [plan for plan in known if _time_s(program, plan) <= limit_s]
    return min(enough, key=lambda plan: (plan.option.gpus, _time_s(program, plan)))


def _further(program: MeasuredProgram, runnable: Sequence[Plan], chosen: Plan | None) -> list[str]:
    """The runs that would make more known."""
    if not program.samples:
        return ["Run it once, or with `pre_run: auto`: its speed goes into the history."]
    if chosen is None:
        return ["A run at one more size gives it a curve."]
    limit_s = _time_s(program, chosen) / WORTH
    better = [
        plan
        for plan in runnable
        if plan.step_s is not None
        and plan.step_s.likely is None
        and plan.step_s.low * (1.0 if program.is_batch_shared else 1.0 / plan.option.processes)
        < limit_s
        and plan.finish_s is None
    ]
    if not better:
        return []
    plan = min(better, key=lambda one: one.option.gpus)
    return [f"{size_words(plan.option)} may be faster: a run there would tell."]


# ---- words ---------------------------------------------------------------------------------------


def size_words(option: Option) -> str:
    """Such as ``8 GPUs on 2 nodes``."""
    count, unit = (option.gpus, "GPU") if option.gpus else (option.processes, "process")
    plural = "" if count == 1 else "es" if unit == "process" else "s"
    where = "in one node" if option.nodes == 1 else f"on {option.nodes} nodes"
    return f"{count} {unit}{plural} {where}"


def _reason(plan: Plan, found: StepPrediction) -> str:
    """One sentence that names the term that dominates the step."""
    size = size_words(plan.option)
    step = found.step_s
    if step.likely is None:
        return f"{size}: unknown, as {found.why_unknown}; a step takes at least {step.low:.3g} s"
    unit = "GPU" if plan.option.gpus else "process"
    speed = (
        f"{plan.speedup:.1f} times one {unit}"
        if plan.speedup is not None and plan.option.processes > 1
        else f"a step takes {step.likely:.3g} s"
    )
    return f"{size}: {speed}{_dominating(plan, found)}"


def _dominating(plan: Plan, found: StepPrediction) -> str:
    step_s, share = found.step_s.likely, plan.network_share
    if plan.option.processes == 1 or not step_s:
        return ""
    if share is not None and share > NETWORK_SHARE:
        return f"; the network takes {share:.0%} of a step"
    fixed_share = None if found.fixed_s is None else min(1.0, found.fixed_s / step_s)
    if fixed_share is not None and fixed_share > 0.5:
        return f"; {fixed_share:.0%} of a step is work that more processes do not divide"
    return "; compute dominates" if share is not None else ""
