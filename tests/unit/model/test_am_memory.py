"""What the AM's container asks for."""

from __future__ import annotations

import pytest

from yarnam.core.model.resources import am_memory_mib


@pytest.mark.parametrize(
    ("tasks", "memory", "with_inputs"),
    [(1, 512, 1024), (100, 512, 1024), (300, 512, 1024), (1000, 768, 1152)],
)
def test_it_grows_with_the_gang(tasks: int, memory: int, with_inputs: int) -> None:
    assert am_memory_mib(tasks, has_inputs=False) == memory
    assert am_memory_mib(tasks, has_inputs=True) == with_inputs
