"""Preemption: whether it comes at all, and whether it thrashes gangs."""

from __future__ import annotations

from collections.abc import Iterator

from yarnam.core.queues.lint.lint_values import (
    FAIR,
    Finding,
    LintInput,
    error,
    site_xml,
    warning,
    xml,
)

THRASH_S = 30
"""A gang that is preempted stops, saves, releases everything and starts again: less than this
between two preemptions leaves no time to train. Ours."""
DAY_S = 86_400
HOUR_S = 3600
CHECKPOINT_MS = 60_000
"""The time that a preempted gang has for its last checkpoint should be a minute. Ours."""
_TIMEOUTS = (
    "minSharePreemptionTimeout",
    "fairSharePreemptionTimeout",
    "defaultMinSharePreemptionTimeout",
    "defaultFairSharePreemptionTimeout",
)


def preemption_off(given: LintInput) -> Iterator[Finding]:
    """With minimums or timeouts in the file, somebody counts on it."""
    guaranteed = [queue for queue in given.queues() if queue.minimum.gpus]
    if given.settings is not None and not given.preempts and guaranteed:
        yield warning(
            guaranteed[0].element.child("minResources") or guaranteed[0].element,
            f"{guaranteed[0].name} has a minimum, and preemption is off",
            "a minimum is first served, never taken back: the queue waits until others end",
            site_xml(f"{FAIR}.preemption", "true"),
        )


def preemption_without_timeout(given: LintInput) -> Iterator[Finding]:
    """Timeouts are infinite unless set."""
    if given.settings is not None and not given.preempts:
        return
    for queue in given.queues():
        if queue.is_leaf and queue.minimum.gpus and queue.min_share_timeout_s is None:
            yield warning(
                queue.element.child("minResources") or queue.element,
                f"{queue.name} has a minimum and no minSharePreemptionTimeout",
                "the default is for ever: nothing is preempted for it",
                xml("minSharePreemptionTimeout", "120"),
            )


def _looks_like_milliseconds(seconds: int) -> bool:
    """Longer than a day; or round in milliseconds and not in hours."""
    is_round = seconds >= 10_000 and seconds % 1000 == 0 and seconds % HOUR_S != 0
    return seconds > DAY_S or is_round


def timeouts_that_thrash(given: LintInput) -> Iterator[Finding]:
    """Also those that are meant in milliseconds."""
    elements = [given.allocations.document, *(queue.element for queue in given.queues())]
    for element in elements:
        for tag in _TIMEOUTS:
            found = element.child(tag)
            text = found.text.strip() if found is not None else ""
            if found is None or not text.isdigit():
                continue
            if int(text) < THRASH_S:
                yield warning(
                    found,
                    f"<{tag}> is {text} s",
                    f"gangs are preempted as a whole: under {THRASH_S} s they take turns at "
                    "starting, and train nothing",
                    xml(tag, "120"),
                )
            elif _looks_like_milliseconds(int(text)):
                yield warning(
                    found,
                    f"<{tag}> is {text} s, {int(text) / HOUR_S:.3g} hours",
                    "YARN reads seconds, not milliseconds",
                    xml(tag, min(DAY_S, max(THRASH_S, int(text) // 1000))),
                )


def threshold_of_everything(given: LintInput) -> Iterator[Finding]:
    """fairSharePreemptionThreshold near 1: any imbalance preempts."""
    tags = ("fairSharePreemptionThreshold", "defaultFairSharePreemptionThreshold")
    elements = [given.allocations.document, *(queue.element for queue in given.queues())]
    for element in elements:
        found = element.child(*tags)
        if found is None:
            continue
        try:
            value = float(found.text)
        except ValueError:
            continue
        if not 0.0 <= value <= 1.0:
            yield error(
                found,
                f"<{found.tag}> is {value:g}",
                f"YARN reads {min(1.0, max(0.0, value)):g}: the range is 0 to 1",
                xml(found.tag, "0.5"),
            )
        elif value > 0.9:
            yield warning(
                found,
                f"<{found.tag}> is {value:g}",
                "shares move with each job that comes or ends, and gangs come in whole tasks: one "
                "is preempted for a GPU or two",
                xml(found.tag, "0.5"),
            )


def am_preemption_on(given: LintInput) -> Iterator[Finding]:
    """On by default; a setting for each queue overrules it."""
    if not given.preempts or given.setting(f"{FAIR}.am.preemption", "true") == "false":
        return
    queues = [queue for queue in given.queues() if queue.is_leaf and queue.is_preemptable]
    open_ones = [
        queue.name
        for queue in queues
        if given.setting(f"{FAIR}.am.preemption.{queue.name}", "true") != "false"
    ]
    if open_ones:
        yield warning(
            None,
            f"ApplicationMasters may be preempted in {len(open_ones)} queues",
            "with its ApplicationMaster a gang loses its place, and all of it restarts",
            site_xml(f"{FAIR}.am.preemption", "false"),
        )


def kill_before_checkpoint(given: LintInput) -> Iterator[Finding]:
    """Between the notice and the kill."""
    limit_ms = given.number(f"{FAIR}.waitTimeBeforeKill", 15_000)
    if given.preempts and limit_ms < CHECKPOINT_MS:
        yield warning(
            None,
            f"a preempted container is killed {limit_ms / 1000:g} s after the notice",
            "that is shorter than most last checkpoints",
            site_xml(f"{FAIR}.waitTimeBeforeKill", CHECKPOINT_MS),
        )


def utilization_blind_to_gpus(given: LintInput) -> Iterator[Finding]:
    """FairScheduler.shouldAttemptPreemption looks at memory and cores."""
    key = f"{FAIR}.preemption.cluster-utilization-threshold"
    threshold = given.number(key, 0.8)
    if given.preempts and threshold > 0:
        yield warning(
            None,
            f"nothing is preempted while less than {threshold:.0%} of memory and cores are in use",
            "the threshold does not count GPUs: all of them can be in use and no queue gets its "
            "minimum",
            site_xml(key, "0.0"),
        )


RULES = (
    preemption_off,
    preemption_without_timeout,
    timeouts_that_thrash,
    threshold_of_everything,
    am_preemption_on,
    kill_before_checkpoint,
    utilization_blind_to_gpus,
)
