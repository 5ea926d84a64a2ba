"""The import contracts of pyproject.toml hold, and each of them catches what it is there for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("yarnam", "hdfs_utils", "skein_specs")

LAYERS = "layers: a room imports only downwards"
HDFS_UTILS = "hdfs_utils stands alone"
HDFS_LAYERS = "layers of hdfs_utils"
TRAIN = "the training SDK stands alone"
PURE = "the core is pure"
MACHINE = "the agent's machine is pure"
MESSAGES = "the agent knows messages in its mailbox alone"
LIGHT = "containers stay light"
CORE = "layers of the core: decisions do not see each other"
ACYCLIC = "no circles"
SPECS = "skein_specs stands below the adapters"
SIM = "the simulator is a model"
CONTRACTS = (
    LAYERS,
    CORE,
    ACYCLIC,
    SPECS,
    SIM,
    HDFS_UTILS,
    HDFS_LAYERS,
    TRAIN,
    PURE,
    MACHINE,
    MESSAGES,
    LIGHT,
)


def lint_imports(tree: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on a tree: it reads the packages that lie in its working directory."""
    return subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def broken_contracts(output: str) -> list[str]:
    return [line.removesuffix("BROKEN").strip() for line in output.splitlines() if "BROKEN" in line]


@pytest.fixture(scope="module")
def clean_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = tmp_path_factory.mktemp("clean") / "tree"
    tree.mkdir()
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(ROOT / "pyproject.toml", tree)
    return tree


def test_the_tree_keeps_every_contract(clean_tree: Path) -> None:
    done = lint_imports(clean_tree)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(CONTRACTS)} kept, 0 broken" in done.stdout


SEEDS = (
    ("yarnam/core/model/seeded.py", "from yarnam.core.gang import machine", CORE),
    ("yarnam/errors/seeded.py", "import yarnam.core.model.ids", LAYERS),
    ("yarnam/ports/seeded.py", "import yarnam.adapters", LAYERS),
    ("yarnam/agent/seeded.py", "import yarnam.am", LAYERS),
    ("yarnam/core/gang/seeded.py", "import yarnam.core.placement", CORE),
    ("yarnam/core/model/seeded.py", "import yarnam.core.admission", CORE),
    # A room of the core that nobody gave a place.
    ("yarnam/core/weather/__init__.py", "", CORE),
    # Each of these rooms is imported by the one that is seeded here.
    ("yarnam/adapters/hdfs/seeded.py", "import yarnam.adapters.yarn.rest_launcher", ACYCLIC),
    ("hdfs_utils/config/seeded.py", "import hdfs_utils.transfer", ACYCLIC),
    ("skein_specs/seeded.py", "import yarnam.adapters", SPECS),
    ("skein_specs/seeded.py", "import yarnam.core.gang", SPECS),
    ("yarnam/sim/seeded.py", "import time", SIM),
    ("yarnam/sim/seeded.py", "import yarnam.wire.codec", SIM),
    ("yarnam/errors/seeded.py", "import os", PURE),
    ("yarnam/core/admission/seeded.py", "import hdfs_utils", PURE),
    ("yarnam/adapters/seeded.py", "import yarnam.client", LAYERS),
    ("yarnam/client/seeded.py", "import yarnam.cli", LAYERS),
    ("yarnam/wire/seeded.py", "import yarnam.spec", LAYERS),
    # A room that nobody gave a place in the layers.
    ("yarnam/helpers/__init__.py", "", LAYERS),
    ("hdfs_utils/uri.py", "import yarnam.errors", HDFS_UTILS),
    ("hdfs_utils/protocols/seeded.py", "import hdfs_utils.backends.connect", HDFS_LAYERS),
    ("hdfs_utils/journal/seeded.py", "import hdfs_utils.checkpoints", HDFS_LAYERS),
    ("hdfs_utils/seeded.py", "", HDFS_LAYERS),
    ("yarnam/train/seeded.py", "import grpc", TRAIN),
    ("yarnam/train/seeded.py", "import yarnam.core.model.ids", TRAIN),
    ("yarnam/core/gang/seeded.py", "import time", PURE),
    ("yarnam/core/placement/seeded.py", "from random import random", PURE),
    ("yarnam/core/model/seeded.py", "import logging", PURE),
    ("yarnam/core/gang/seeded.py", "import yaml", PURE),
    ("yarnam/agent/machine/seeded.py", "import time", MACHINE),
    ("yarnam/agent/machine/seeded.py", "import yarnam.agent.launch.task_run", MACHINE),
    ("yarnam/agent/launch/seeded.py", "from yarnam.wire.pb import yarnam_pb2", MESSAGES),
    ("yarnam/am/seeded.py", "import click", LIGHT),
    ("yarnam/agent/seeded.py", "import yarnam.spec", LIGHT),
)


def seeds() -> Iterator[Any]:
    """One of each contract in every run; the others, of some seconds each, in the second tier."""
    seen = set()
    for seed in SEEDS:
        contract = seed[-1]
        yield pytest.param(*seed, marks=pytest.mark.long) if contract in seen else seed
        seen.add(contract)


@pytest.mark.parametrize(("module", "line", "contract"), [*seeds()])
def test_a_seeded_violation_is_caught(
    clean_tree: Path, tmp_path: Path, module: str, line: str, contract: str
) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(clean_tree, tree)
    seeded = tree / module
    seeded.parent.mkdir(exist_ok=True)
    seeded.write_text(f"{line}\n")
    done = lint_imports(tree)
    assert done.returncode != 0, f"{line!r} in {module} went unnoticed"
    assert any(name.startswith(contract) for name in broken_contracts(done.stdout)), done.stdout
