"""Allocation files with many configurations side by side.

Each is a tree below a queue whose minimum is its maximum, which therefore has exactly that much,
whatever the others have."""

from __future__ import annotations

import random

from yarnam.core.model.resources import Resources

Amounts = tuple[int, ...]


def amounts(dice: random.Random, most: Amounts) -> str:
    memory, vcores, gpus = (dice.randint(0, limit) for limit in most)
    return dice.choice(
        [
            f"memory-mb={memory}, vcores={vcores}, yarn.io/gpu={gpus}",
            f"yarn.io/gpu={gpus}",
            f"{memory} mb, {vcores} vcores",
        ]
    )


def maximum(dice: random.Random, most: Amounts) -> str:
    shares = [f"{dice.randint(1, 1000) / 10}%" for _ in range(3)]
    return dice.choice(
        [
            amounts(dice, most),
            shares[0],
            f"memory-mb={shares[0]}, vcores={shares[1]}, yarn.io/gpu={shares[2]}",
            f"yarn.io/gpu={shares[2]}",
            f"{shares[0]} memory, {shares[1]} cpu",
        ]
    )


def tree(
    dice: random.Random, name: str, most: Resources, *, max_am_share: float, has_order: bool = False
) -> str:
    """The XML of one: two levels, both policies, weights of all kinds. ``has_order``: but no weight
    of 0 below ``drf``, whose comparator gives such queues no order (``core.queues.serving_order``).
    """
    size = tuple(dice.randint(1, limit) for limit in (most.memory_mib, most.vcores, most.gpus))

    def below(depth: int, name: str, above: str) -> str:
        allowed = ("fair",) if above == "fair" else ("fair", "drf")
        is_leaf = not depth or dice.random() < 0.4
        policy = dice.choice((*allowed, "fifo") if is_leaf else allowed)
        fields = [f"<schedulingPolicy>{policy}</schedulingPolicy>"]
        if dice.random() < 0.7:
            weights = [0.1, 0.3, 1, 1.7, 3, 1000]
            if above == "fair" or not has_order:
                weights.append(0)
            fields.append(f"<weight>{dice.choice(weights)}</weight>")
        if dice.random() < 0.4:
            small = (size[0] // 3, size[1] // 3, size[2] // 3)
            fields.append(f"<minResources>{amounts(dice, small)}</minResources>")
        if dice.random() < 0.4:
            fields.append(f"<maxResources>{maximum(dice, size)}</maxResources>")
        if is_leaf:
            fields.append(f"<maxAMShare>{max_am_share}</maxAMShare>")
            fields.append("<aclSubmitApps>*</aclSubmitApps>")
        else:
            fields += [below(depth - 1, f"q{i}", policy) for i in range(dice.randint(1, 5))]
        return f'<queue name="{name}">{"".join(fields)}</queue>'

    whole = f"memory-mb={size[0]}, vcores={size[1]}, yarn.io/gpu={size[2]}"
    policy = dice.choice(["drf", "drf", "fair"])
    children = "".join(below(2, f"q{i}", policy) for i in range(dice.randint(2, 8)))
    return (
        f'<queue name="{name}"><schedulingPolicy>{policy}</schedulingPolicy>'
        f"<minResources>{whole}</minResources><maxResources>{whole}</maxResources>"
        f"{children}</queue>\n"
    )
