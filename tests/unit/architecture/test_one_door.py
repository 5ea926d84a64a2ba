"""Foreign bytes come in by one door, ``hdfs_utils.protocols.untrusted``; nothing else decodes them.

The libraries below believe what they read: they recurse as deep and unpack as much as it wants,
give NaN and any type, and raise what they like. Who needs one for bytes that this process or its
own installation has made, or for a file's content in a bounded child, has a line in ``ALLOWED``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("yarnam", "hdfs_utils", "skein_specs", "hydra_plugins", "torchx_plugins")

BANNED = (
    "json.load", "json.loads", "json.JSONDecoder", "json.decoder",
    "zlib.decompress", "zlib.decompressobj", "gzip.decompress", "gzip.open",
    "bz2.decompress", "bz2.open", "bz2.BZ2File", "bz2.BZ2Decompressor",
    "lzma.decompress", "lzma.open", "lzma.LZMAFile", "lzma.LZMADecompressor",
    "ast.literal_eval", "eval", "exec", "pickle.load", "pickle.loads", "pickle.Unpickler",
    "marshal", "shelve", "plistlib", "tomllib", "xml.etree", "xml.dom", "xml.sax.parse",
    "xml.sax.make_parser", "yaml.load", "yaml.safe_load", "yaml.unsafe_load", "yaml.full_load",
    "yaml.safe_load_all", "yaml.load_all",
)  # fmt: skip

_OWN_CLUSTER = "files and daemons of the embedded cluster, which this user's yarnam has made"
_SDK = "the SDK imports neither yarnam nor a third party; it reads what this job's own agent wrote"
_CHECKED = "the check of an input: runs in a bounded child, and whatever it raises is the finding"

ALLOWED = {
    "hdfs_utils/protocols/untrusted.py": "the door",
    "hdfs_utils/checkpoints/frameworks/metadata_pickle.py": "an Unpickler with a list of classes",
    "hdfs_utils/checkpoints/memory/memory_holder.py": "a pipe from the parent that started it",
    "hdfs_utils/config/configuration.py": "the site's own configuration; libexpat bounds entities",
    "hdfs_utils/validation/formats/arrays.py": _CHECKED,
    "hdfs_utils/validation/formats/compressed.py": _CHECKED,
    "hdfs_utils/validation/formats/hadoop_files.py": _CHECKED,
    "hdfs_utils/validation/formats/texts.py": _CHECKED,
    "hdfs_utils/validation/sandbox/decoder_child.py": "the request of the parent that started it",
    "skein_specs/application.py": "a file of this package",
    "yarnam/agent/data/am_lookup.py": "a pipe between the agent and its own child",
    "yarnam/agent/data/checkpoint_mirror.py": "a pipe between the agent and its own child",
    "yarnam/agent/data/mirror_process.py": "the request of the parent that started it",
    "yarnam/agent/data/input_staging.py": "a variable that this agent itself has set",
    "yarnam/agent/keeper/keeper.py": "a pipe between the agent and its own child",
    "yarnam/agent/launch/launch_plan.py": "a variable that this agent itself has set",
    "yarnam/agent/programs/head_launch.py": "a variable that the job's AM has set",
    "yarnam/agent/programs/notebook_server.py": "stands alone; a server of the job's user, bounded",
    "yarnam/client/functions/call_program.py": "the call that its user has shipped with it",
    "yarnam/client/functions/call_results.py": "pickles from the user's own directory, mode 700",
    "yarnam/client/functions/packed_calls.py": "pickles from the user's own directory, mode 700",
    "yarnam/cluster/cluster_plan.py": _OWN_CLUSTER,
    "yarnam/cluster/daemons/daemon_probes.py": _OWN_CLUSTER,
    "yarnam/cluster/daemons/daemon_processes.py": _OWN_CLUSTER,
    "yarnam/cluster/hadoop/queue_file.py": _OWN_CLUSTER,
    "yarnam/cluster/software/jar_cache.py": "a file of this package",
    "yarnam/spec/failure_rules.py": "a file of this package",
    "yarnam/train/_job/agent_client.py": _SDK,
    "yarnam/train/_inputs/input_listing.py": _SDK,
    "yarnam/train/_job/job_context.py": _SDK,
    "yarnam/train/_job/stop.py": _SDK,
}


def decoders(source: str) -> Iterator[tuple[int, str]]:
    """Where a module uses one of ``BANNED``, under whatever name it has imported it."""
    tree = ast.parse(source)
    names = {"eval": "eval", "exec": "exec"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
                if is_banned(alias.name):
                    yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                names[alias.asname or alias.name] = whole
                if is_banned(whole):
                    yield node.lineno, whole
    for node in ast.walk(tree):
        if isinstance(node, (ast.Attribute, ast.Name)):
            head, *rest = dotted(node)
            whole = ".".join([names[head], *rest]) if head in names else ""
            if is_banned(whole):
                yield node.lineno, whole


def dotted(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Attribute):
        return [*dotted(node.value), node.attr]
    return [node.id] if isinstance(node, ast.Name) else [""]


def is_banned(name: str) -> bool:
    return bool(name) and any(name == banned or name.startswith(f"{banned}.") for banned in BANNED)


@cache
def users() -> dict[str, list[tuple[int, str]]]:
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "pb" not in path.parts and (uses := list(decoders(path.read_text()))):
                found[path.relative_to(ROOT).as_posix()] = uses
    return found


def test_nothing_else_decodes() -> None:
    others = {path: uses for path, uses in users().items() if path not in ALLOWED}
    assert not others, f"use hdfs_utils.protocols.untrusted: {others}"


def test_every_allowance_is_needed_and_says_why() -> None:
    assert set(ALLOWED) <= set(users())
    assert all(len(reason) > 7 for reason in ALLOWED.values())


@pytest.mark.parametrize(
    "source",
    [
        "import json\njson.loads(b'')",
        "import json as j\nx = j.load",
        "from json import loads\nloads(b'')",
        "from json import loads as parse\nparse(b'')",
        "from json.decoder import JSONDecoder",
        "def f():\n    import zlib\n    return zlib.decompress(b'')",
        "import gzip\ngzip.open('x')",
        "import pickle\nclass U(pickle.Unpickler): ...",
        "import marshal",
        "from xml.etree import ElementTree as ET\nET.parse('x')",
        "import xml.dom.minidom",
        "import ast\nast.literal_eval('1')",
        "import yaml\nyaml.safe_load('')",
        "eval('1')",
        "HANDLERS = {'x': __import__}\nimport bz2\nHANDLERS['y'] = bz2.decompress",
    ],
)
def test_a_seeded_violation_is_found(source: str) -> None:
    assert list(decoders(source))


@pytest.mark.parametrize(
    "source",
    [
        "import json\njson.dumps({})",
        "import zlib\nzlib.crc32(b'')",
        "from hdfs_utils.protocols.untrusted import decode_json",
        "class A:\n    def loads(self): ...\nA().loads()",
        "import pickle\npickle.dumps(1)",
    ],
)
def test_what_is_no_decoder_is_left_alone(source: str) -> None:
    assert not list(decoders(source))
