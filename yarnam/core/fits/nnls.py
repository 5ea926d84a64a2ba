"""Non-negative least squares (Lawson and Hanson, "Solving Least Squares Problems", 1974, chapter
23), for the few unknowns of a curve. The core imports no third party, so not SciPy's."""

from __future__ import annotations

from collections.abc import Sequence

_TOLERANCE = 1e-10


def nnls(rows: Sequence[Sequence[float]], values: Sequence[float]) -> tuple[float, ...]:
    """The x >= 0 that minimizes the sum of squares of ``rows`` x - ``values``. Raises ValueError:
    there are no rows, or they are of several lengths."""
    if not rows or len(rows) != len(values) or len({len(row) for row in rows}) != 1:
        raise ValueError("nnls needs rows of one length, and a value for each")
    count = len(rows[0])
    scales = [max((abs(row[i]) for row in rows), default=0.0) or 1.0 for i in range(count)]
    scaled = [[value / scale for value, scale in zip(row, scales, strict=True)] for row in rows]
    gram = [[sum(r[i] * r[j] for r in scaled) for j in range(count)] for i in range(count)]
    right = [sum(r[i] * v for r, v in zip(scaled, values, strict=True)) for i in range(count)]
    x = _solve(gram, right, count)
    return tuple(value / scale for value, scale in zip(x, scales, strict=True))


def _solve(gram: list[list[float]], right: list[float], count: int) -> list[float]:
    x: list[float] = [0.0] * count
    passive: set[int] = set()
    tolerance = _TOLERANCE * max(1.0, *map(abs, right))
    for _ in range(3 * count + 3):
        gradient: list[float] = [
            right[i] - sum(gram[i][j] * x[j] for j in range(count)) for i in range(count)
        ]
        free = [i for i in range(count) if i not in passive and gradient[i] > tolerance]
        if not free:
            break
        passive.add(max(free, key=gradient.__getitem__))
        for _ in range(count + 1):
            trial = _least_squares(gram, right, sorted(passive), count)
            if all(trial[i] > 0.0 for i in passive):
                x = trial
                break
            step = (
                min(
                    x[i] / (x[i] - trial[i]) for i in passive if trial[i] <= 0.0 and x[i] > trial[i]
                )
                if any(trial[i] <= 0.0 and x[i] > trial[i] for i in passive)
                else 0.0
            )
            x = [old + step * (new - old) for old, new in zip(x, trial, strict=True)]
            passive = {i for i in passive if x[i] > _TOLERANCE}
            if not passive:
                break
    return [max(0.0, value) for value in x]


def _least_squares(
    gram: list[list[float]], right: list[float], chosen: list[int], count: int
) -> list[float]:
    """Solve for the chosen unknowns by Gaussian elimination with pivots; the others are 0."""
    size = len(chosen)
    table = [[gram[i][j] for j in chosen] + [right[i]] for i in chosen]
    for column in range(size):
        pivot = max(range(column, size), key=lambda r: abs(table[r][column]))
        table[column], table[pivot] = table[pivot], table[column]
        head = table[column][column]
        if abs(head) < 1e-15:
            continue  # A direction that the rows do not tell: it stays 0.
        for r in range(size):
            if r != column and table[r][column]:
                factor = table[r][column] / head
                table[r] = [a - factor * b for a, b in zip(table[r], table[column], strict=True)]
    x = [0.0] * count
    for position, i in enumerate(chosen):
        head = table[position][position]
        x[i] = table[position][size] / head if abs(head) >= 1e-15 else 0.0
    return x
