"""The candidates of a ladder, ranked: locality level, step of the ladder, whether it fits now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from yarnam.core.model.ids import NodeId
from yarnam.core.model.job_spec import PackOrSpread, TopologyConstraint
from yarnam.core.model.plans import LocalityLevel, Rung, TargetAsk
from yarnam.core.placement.domains import TargetCandidate
from yarnam.core.placement.gang_shape import Shape, tasks_of
from yarnam.core.placement.job_view import JobView
from yarnam.core.placement.packing.bin_packing import Packing, PackRules
from yarnam.core.placement.packing.capacity_index import CapacityIndex
from yarnam.core.placement.packing.node_capacity import may_host

REQUIRED, UNCONSTRAINED = TopologyConstraint.REQUIRED, TopologyConstraint.UNCONSTRAINED


@dataclass(frozen=True, slots=True)
class Fewest:
    """The fewest nodes that could ever hold the gang."""

    nodes: int | None
    """``None`` if it never fits."""
    has_rack: bool
    """Whether some rack could ever hold it; if so, ``nodes`` is within one rack (unless the job
    leaves racks unconstrained)."""


class RankedCandidate(NamedTuple):
    """A candidate with its level, its step of the ladder and its packing. A named tuple: a plan
    makes some ten."""

    candidate: TargetCandidate
    fewest: Fewest
    level: LocalityLevel
    rules: PackRules
    packing_now: Packing | None
    """Where its tasks would go now; ``None`` if it does not fit now."""
    packing_when_idle: Packing | None
    """Where its tasks could go if nothing else ran; ``None`` if nowhere."""
    able_hosts: int
    """Nodes that could host a task now."""
    racks: int
    """Racks that the gang may be spread over."""
    is_sure: bool
    """Whether every way to fill the domain keeps the node limit; else the AM releases the grants
    that break it."""
    gpus_touched: int
    """Free GPUs of the nodes that it would use: the fewer, the more nodes stay whole."""
    tie: tuple[int, int] = (0, 0)
    """Bytes of input in the domain (negative), and the job's own order."""
    number: int = 0
    """Step of the ladder: candidates of one shape and level share it."""

    @property
    def packing(self) -> Packing | None:
        """Where its tasks go now, else where they could go if nothing else ran."""
        return self.packing_now or self.packing_when_idle

    @property
    def is_able(self) -> bool:
        """Whether it could ever fit."""
        return self.packing is not None


def rank_candidates(view: JobView, candidates: Iterable[TargetCandidate]) -> list[RankedCandidate]:
    """All candidates in the order of the ladder, numbered by step."""
    candidates = tuple(candidates)
    fewest = _fewest_by_sizes(view, candidates)
    ranked = [evaluate(view, one, fewest[_sizes_of(one.shape)]) for one in candidates]
    keyed = sorted(((rank_key(one), one) for one in ranked), key=itemgetter(0))
    steps = list(dict.fromkeys(key[:2] for key, _ in keyed))
    numbered = ((steps.index(key[:2]), one) for key, one in keyed)
    return [one._replace(number=number) if number else one for number, one in numbered]


def any_fits(
    view: JobView,
    candidates: Sequence[TargetCandidate],
    is_wanted: Callable[[TargetCandidate], bool],
) -> bool:
    """Whether any candidate that is wanted fits now: the others are not looked at."""
    wanted = [one for one in candidates if is_wanted(one)]
    if not wanted:
        return False
    fewest = _fewest_by_sizes(view, candidates)
    return any(
        evaluate(view, one, fewest[_sizes_of(one.shape)]).packing_now is not None for one in wanted
    )


def _fewest_by_sizes(
    view: JobView, candidates: Sequence[TargetCandidate]
) -> Mapping[object, Fewest]:
    by_sizes: dict[object, list[Fewest]] = {}
    for shape in {candidate.shape: None for candidate in candidates}:
        by_sizes.setdefault(_sizes_of(shape), []).append(fewest_nodes(view, shape))
    return {sizes: _fewest_of(found) for sizes, found in by_sizes.items()}


def _sizes_of(shape: Shape) -> object:
    """A shape without its GPU models and bounds."""
    return tuple((group.role, group.count, group.resources) for group in shape)


def _fewest_of(found: Sequence[Fewest]) -> Fewest:
    """The fewest over all models."""
    has_rack = any(one.has_rack for one in found)
    nodes = [one.nodes for one in found if one.nodes is not None and one.has_rack == has_rack]
    return Fewest(min(nodes, default=None), has_rack)


def fewest_nodes(view: JobView, shape: Shape) -> Fewest:
    """The fewest nodes, as if nothing ran on them."""
    rules = view.rules_within(None)
    if view.job.placement.rack is not UNCONSTRAINED:
        in_rack = view.total.fewest_in_one_rack(shape, rules)
        if in_rack is not None:
            return Fewest(in_rack, has_rack=True)
    return Fewest(view.total.fewest(shape, rules), has_rack=False)


def can_hold(view: JobView, shape: Shape, index: CapacityIndex | None = None) -> bool:
    """Whether ``index`` (by default the whole cluster, as if nothing ran) holds the whole shape
    under the job's hard constraints."""
    index = view.total if index is None else index
    if view.job.placement.rack is REQUIRED:
        return any(_holds(rack, shape, view.rules) for rack in index.racks.values())
    return _holds(index, shape, view.rules)


def _holds(index: CapacityIndex, shape: Shape, rules: PackRules) -> bool:
    return index.may_hold(shape, rules) and index.fewest(shape, rules) is not None


def evaluate(view: JobView, candidate: TargetCandidate, fewest: Fewest) -> RankedCandidate:
    """One candidate with its level and fit. ``fewest`` is that of its shape, over all GPU models.
    Kept with the free capacity of its domain: the capacity of most racks does not change."""
    placement, domain = view.job.placement, candidate.domain
    total, free = _capacity_of(view.total, candidate), _capacity_of(view.free, candidate)
    racks = len(domain.racks) if domain.racks and not domain.nodes else len(total.racks)
    key = (total, candidate.shape, fewest, racks, placement)
    known = free.evaluated.get(key)
    if not isinstance(known, RankedCandidate):
        known = free.evaluated[key] = _evaluated(view, candidate, fewest, racks, total, free)
    tie = (-_local_bytes(view, total), view.tie_break.order(candidate.targets[0].service))
    return known._replace(candidate=candidate, tie=tie)


def _evaluated(
    view: JobView,
    candidate: TargetCandidate,
    fewest: Fewest,
    racks: int,
    total: CapacityIndex,
    free: CapacityIndex,
) -> RankedCandidate:
    """``total`` and ``free``: of the nodes that it may use. All but what breaks ties."""
    placement = view.job.placement
    most_nodes = min(tasks_of(candidate.shape), _hosts_able(total, candidate.shape))
    level = _level(view, fewest, racks, most_nodes)
    node_limit = placement.max_nodes
    if fewest.nodes is not None and (placement.node is REQUIRED or level is LocalityLevel.NODE):
        node_limit = fewest.nodes if node_limit is None else min(node_limit, fewest.nodes)
    rules = view.rules_within(
        node_limit,
        is_loose=placement.node is UNCONSTRAINED
        and placement.rack is UNCONSTRAINED
        and node_limit is None,
    )
    now = free.pack(candidate.shape, rules)
    return RankedCandidate(
        candidate=candidate,
        fewest=fewest,
        level=level,
        rules=rules,
        packing_now=now,
        packing_when_idle=now or total.pack(candidate.shape, rules),
        able_hosts=free.able_hosts(candidate.shape),
        racks=racks,
        is_sure=node_limit is None or most_nodes <= node_limit,
        gpus_touched=sum(free.by_node[node].gpus for node in now.nodes) if now else 0,
    )


def _capacity_of(index: CapacityIndex, candidate: TargetCandidate) -> CapacityIndex:
    """The nodes that may host some task of the candidate. If its roles are requested in different
    bounds, its domain alone is not enough."""
    inside = index.within(candidate.domain)
    if not any(group.is_bounded for group in candidate.shape):
        return inside
    capacities = [
        capacity
        for capacity in inside.capacities
        if any(may_host(g, capacity) for g in candidate.shape)
    ]
    return CapacityIndex(capacities, index.tie_break)


def _hosts_able(index: CapacityIndex, shape: Shape) -> int:
    """On how many nodes tasks of the gang may land."""
    if len(shape) == 1:
        return index.able_hosts(shape)
    return len(index.capacities)


def _level(view: JobView, fewest: Fewest, racks: int, most_nodes: int) -> LocalityLevel:
    """The locality that the gang is sure to get in a domain. NODE: the fewest nodes that it can
    ever have, in one rack if one can hold it. RACK: one rack."""
    placement = view.job.placement
    is_few = fewest.nodes is not None and (placement.node is REQUIRED or most_nodes <= fewest.nodes)
    needs_rack = fewest.has_rack and placement.rack is not UNCONSTRAINED
    if placement.node is not UNCONSTRAINED and is_few and (racks == 1 or not needs_rack):
        return LocalityLevel.NODE
    if racks == 1 and placement.rack is not UNCONSTRAINED:
        return LocalityLevel.RACK
    return LocalityLevel.ANY


def _local_bytes(view: JobView, index: CapacityIndex) -> int:
    """Bytes of input in a domain; 0 for the whole cluster, where they make no difference."""
    if not view.tie_break.local or index is view.total:
        return 0
    by_rack = dict(view.data.racks)
    if by_rack and all(
        len(index.capacities) == len(view.total.racks[r].capacities) for r in index.racks
    ):
        return sum(by_rack.get(rack, 0) for rack in index.racks)
    return sum(view.tie_break.local.get(capacity.node, 0) for capacity in index.capacities)


Rank = tuple[int, int, bool, bool, int, int, int, int, tuple[int, int], str]


def rank_key(ranked: RankedCandidate) -> Rank:
    """Sorts the tightest first: the largest containers, the closest level; then what fits now, a
    domain that cannot break the node limit, the fewest racks, the most nodes able to host a task,
    the fewest nodes, the tightest fit, the most bytes of input, the job's own order, the name."""
    packing = ranked.packing
    return (
        -ranked.candidate.gpus_per_task,
        int(ranked.level),
        ranked.packing_now is None,
        not ranked.is_sure,
        ranked.racks if ranked.level is not LocalityLevel.RACK else 1,
        -ranked.able_hosts,
        len(packing.nodes) if packing else 1 << 30,
        ranked.gpus_touched,
        ranked.tie,
        ranked.candidate.targets[0].service,
    )


def score(ranked: RankedCandidate, largest: int) -> float:
    """In [0, 1]: two thirds for the level, one third for few nodes. Less for containers smaller
    than the ``largest`` of the ladder (GPUs of a task), and half of it while it does not fit."""
    packing, fewest = ranked.packing, ranked.fewest.nodes
    few = fewest / len(packing.nodes) if packing and fewest else 0.0
    value = (2 - int(ranked.level)) / 3 + min(1.0, few) / 3
    if largest:
        value *= 0.5 + 0.5 * ranked.candidate.gpus_per_task / largest
    return round(value if ranked.packing_now else value / 2, 4)


def rungs_of(
    view: JobView, chosen: Sequence[RankedCandidate], ranked: Sequence[RankedCandidate]
) -> tuple[Rung, ...]:
    """The ``chosen`` candidates as rungs, with scores that are comparable among all ``ranked``."""
    largest = max(one.candidate.gpus_per_task for one in ranked)
    return tuple(_rung(view, one, score(one, largest)) for one in chosen)


def _rung(view: JobView, ranked: RankedCandidate, value: float) -> Rung:
    packing, placement = ranked.packing, view.job.placement
    nodes = packing.nodes if packing else ()
    groups = packing.groups if packing else tuple(() for _ in ranked.candidate.shape)
    local = sum(view.tie_break.local.get(node, 0) for node in nodes)
    return Rung(
        number=ranked.number,
        level=ranked.level,
        asks=tuple(
            TargetAsk(target, group.count, where)
            for target, group, where in zip(
                ranked.candidate.targets, ranked.candidate.shape, groups, strict=True
            )
        ),
        score=value,
        reason=_reason_text(view, ranked, nodes, local),
        node_limit=ranked.rules.node_limit,
        one_task_per_node=placement.strategy is PackOrSpread.SPREAD,
        same_rack=placement.rack is REQUIRED,
        anti_affinity=placement.anti_affinity,
        local_bytes=local,
    )


def _reason_text(
    view: JobView, ranked: RankedCandidate, nodes: tuple[NodeId, ...], local: int
) -> str:
    """Where, whether it fits now, and what it costs in locality."""
    domain = ranked.candidate.domain
    where = {
        LocalityLevel.NODE: "on the fewest nodes possible",
        LocalityLevel.RACK: "in one rack",
        LocalityLevel.ANY: "anywhere",
    }[ranked.level]
    if domain.racks and not domain.nodes:
        many = len(domain.racks) > 3
        where += f" ({len(domain.racks)} racks)" if many else f" ({', '.join(domain.racks)})"
    models = sorted({group.model for group in ranked.candidate.shape if group.model})
    if models:
        where += f" on {' and '.join(models)}"
    names = ", ".join(nodes[:4]) + (f" and {len(nodes) - 4} more" if len(nodes) > 4 else "")
    fit = "fits now" if ranked.packing_now else "does not fit now; could"
    parts = [f"{where}: {fit} on {_counted(len(nodes), 'node')}: {names}"]
    if cost := _cost(view, ranked, nodes):
        parts.append(f"costs {cost}")
    if view.data.total_bytes and view.tie_break.local:
        share = min(1.0, local / view.data.total_bytes)
        parts.append(f"{share:.0%} of the input's bytes are on these nodes")
    return "; ".join(parts)


def _cost(view: JobView, ranked: RankedCandidate, nodes: tuple[NodeId, ...]) -> str:
    """Describe the placement's cost in locality, compared with the tightest placement possible in
    the cluster."""
    capacities = view.total.by_node
    racks = len({capacities[node].rack for node in nodes if node in capacities})
    more = len(nodes) - (ranked.fewest.nodes or 0)
    parts: list[str] = []
    if more > 0:
        parts.append(f"{_counted(more, 'node')} more than the fewest")
    if racks > 1:
        parts.append(f"{racks - 1} rack boundar{'y' if racks == 2 else 'ies'} to cross")
    return " and ".join(parts)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' if count != 1 else ''}"
