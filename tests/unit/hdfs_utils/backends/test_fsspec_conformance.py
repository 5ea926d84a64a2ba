"""fsspec's own tests for file systems, on the local back-end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.tests import abstract

from hdfs_utils.backends.fsspec_adapter import HdfsUtilsFileSystem


class Fixtures(abstract.AbstractFixtures):
    @pytest.fixture
    def fs(self) -> Any:
        return HdfsUtilsFileSystem("file:///")

    # fsspec's are of class scope but no class methods, which pytest is about to refuse.
    @pytest.fixture
    def local_fs(self) -> Any:
        return LocalFileSystem(auto_mkdir=True)

    @pytest.fixture
    def fs_path(self, tmp_path: Path) -> str:
        return str(tmp_path)


class TestCopy(abstract.AbstractCopyTests, Fixtures):
    pass


class TestGet(abstract.AbstractGetTests, Fixtures):
    pass


class TestPut(abstract.AbstractPutTests, Fixtures):
    pass


class TestPipe(abstract.AbstractPipeTests, Fixtures):
    pass


class TestOpen(abstract.AbstractOpenTests, Fixtures):
    pass
