"""A directory that the NameNode lists in several replies."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hdfs_utils.errors import Unavailable
from hdfs_utils.protocols.namenode import NameNodeRpc
from hdfs_utils.protocols.protobuf import message

MOST_CALLS = 10


class Pages(NameNodeRpc):
    """A NameNode that answers with one page after the other, and from then on with the last."""

    def __init__(self, pages: Sequence[Sequence[str]]) -> None:
        super().__init__((("nn", 8020),), ("ada", ""), 1.0)
        self._pages = pages
        self.calls = 0

    def _ask(self, method: str, path: str, request: bytes) -> bytes:
        del method, path, request
        assert self.calls < MOST_CALLS, "it asks for ever"
        page = self._pages[min(self.calls, len(self._pages) - 1)]
        self.calls += 1
        left = int(self.calls != len(self._pages))
        entries = [(1, message((1, 2), (2, name), (4, message((1, 0o644))))) for name in page]
        return message((1, message(*entries, (2, left))))


def test_the_pages_follow_one_another() -> None:
    found = Pages([["a", "b"], ["c"]]).entries("/d")
    assert [one.path for one in found] == ["/d/a", "/d/b", "/d/c"]


@pytest.mark.parametrize("again", [["a", "b"], ["a"], []])
def test_a_namenode_that_does_not_go_on_is_not_asked_for_ever(again: Sequence[str]) -> None:
    with pytest.raises(Unavailable, match="nothing new comes"):
        Pages([["a", "b"], again, ["c"]]).entries("/d")
