"""What is not loaded at the start, and that it is there as soon as it is wanted."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from yarnam._light_imports import on_first_use

AGENT = """
import gc, sys
from yarnam._light_imports import light_imports
with light_imports(without_ssl=True):
    from yarnam.agent import agent
"""


def say(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_agent_loads_neither_ssl_nor_protobuf_in_python() -> None:
    heavy = ("ssl", "google.protobuf.internal.python_message", "google.protobuf.text_format")
    loaded = "type(sys.modules.get(name)) is type(sys)"
    assert say(f"{AGENT}\nprint([name for name in {heavy} if {loaded}])") == "[]"


def test_the_agent_loads_little_of_the_model_and_of_hdfs_utils() -> None:
    """A hundred frozen classes take 30 ms to make, in each container."""
    program = (
        f"{AGENT}\nprint(sorted(name for name, module in sys.modules.items()"
        " if type(module) is type(sys) and name.startswith("
        "('yarnam.core.model.', 'yarnam.train.', 'yarnam.core.gang', 'hdfs_utils'))))"
    )
    assert ast.literal_eval(say(program)) == [
        "hdfs_utils",
        "hdfs_utils.concurrency",
        "hdfs_utils.concurrency.process_locks",
        "hdfs_utils.errors",
        "hdfs_utils.protocols",
        "hdfs_utils.protocols.rejections",
        "hdfs_utils.protocols.untrusted",
        "yarnam.core.model.ids",
        "yarnam.core.model.metrics",
        "yarnam.core.model.outcomes",
        "yarnam.core.model.printable",
        "yarnam.core.model.resources",
    ]


def test_ssl_is_there_for_who_wants_it_later() -> None:
    assert say(f"{AGENT}\nimport ssl\nprint(ssl.create_default_context().check_hostname)") == "True"


def test_protobuf_in_python_is_loaded_by_the_first_look_into_it() -> None:
    # text_format prints through parts of it.
    program = (
        f"{AGENT}\nfrom google.protobuf import text_format"
        "\nfrom google.protobuf.internal import python_message"
        "\nfrom yarnam.wire.pb import yarnam_pb2 as pb"
        "\nprint(python_message.GeneratedProtocolMessageType.__name__)"
        "\nprint(text_format.MessageToString(pb.DirectiveRequest(ask='worker-0.1')))"
        "\nprint(type(sys.modules['google.protobuf.internal.python_message']) is type(sys))"
    )
    assert say(program).split() == ["GeneratedProtocolMessageType", "ask:", '"worker-0.1"', "True"]


def test_the_garbage_collector_works_afterwards() -> None:
    assert say(f"{AGENT}\nprint(gc.isenabled(), gc.get_freeze_count() > 1000)") == "True True"


def test_a_process_that_has_ssl_keeps_it() -> None:
    assert say(f"import ssl as before{AGENT}\nprint(sys.modules['ssl'] is before)") == "True"
    assert say(f"{AGENT.replace('=True', '=False')}\nprint('ssl' in sys.modules)") == "True"


def test_generated_grpc_code_finds_the_version_of_a_grpc_that_waits() -> None:
    program = (
        "from yarnam._light_imports import on_first_use\n"
        "with on_first_use():\n    import grpc\n"
        "from yarnam.wire.pb import yarnam_pb2_grpc\nprint(yarnam_pb2_grpc.GRPC_VERSION != '')"
    )
    assert say(program) == "True"


def test_a_failed_import_leaves_nothing_changed() -> None:
    program = (
        "import gc, sys\nfrom yarnam._light_imports import light_imports"
        "\ntry:\n    with light_imports(without_ssl=True):\n        import no_such_module"
        "\nexcept ModuleNotFoundError as error:\n    print(error.name, gc.isenabled())"
        "\nimport ssl"
    )
    assert say(program) == "no_such_module True"


# ---- on first use ------------------------------------------------------------------------------


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package ``lately`` whose modules write their names down when they are run."""
    root = tmp_path / "lately"
    (root / "inner").mkdir(parents=True)
    trace = f"with open({str(tmp_path / 'loaded')!r}, 'a') as file: file.write(__name__ + ' ')\n"
    (root / "__init__.py").write_text(trace + "from lately.one import NAME\n")
    (root / "one.py").write_text(trace + "import lately.two\nNAME = 'one'\n")
    (root / "two.py").write_text(trace + "from lately.inner import deep\nNAME = 'two'\n")
    (root / "inner" / "__init__.py").write_text(trace)
    (root / "inner" / "deep.py").write_text(trace + "NAME = 'deep'\n")
    (root / "broken.py").write_text(trace + "raise ValueError('not today')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield root
    for name in [name for name in sys.modules if name.partition(".")[0] == "lately"]:
        del sys.modules[name]


def loaded(package: Path) -> list[str]:
    trace = package.parent / "loaded"
    return trace.read_text().split() if trace.exists() else []


def test_a_module_is_loaded_by_the_first_look_into_it(package: Path) -> None:
    with on_first_use():
        from lately import one  # type: ignore[import-not-found]
        from lately.inner import deep  # type: ignore[import-not-found]
    assert loaded(package) == []
    assert deep.NAME == "deep"
    # Its packages first, as ever, and what they want: each once, in the usual order.
    assert loaded(package) == [
        "lately",
        "lately.one",
        "lately.two",
        "lately.inner",
        "lately.inner.deep",
    ]
    assert one.NAME == "one"
    assert len(loaded(package)) == 5
    assert type(one) is type(deep) is ModuleType
    assert importlib.import_module("lately.one") is one
    assert "NAME = 'one'" in inspect.getsource(one)


def test_the_whole_package_can_wait_too(package: Path) -> None:
    with on_first_use():
        import lately  # type: ignore[import-not-found]
        import lately.inner.deep  # type: ignore[import-not-found]
    assert loaded(package) == []
    assert lately.NAME == "one"
    assert lately.inner.deep.NAME == "deep"


def test_a_second_block_does_not_load_what_a_first_one_put_off(package: Path) -> None:
    with on_first_use():
        import lately
    with on_first_use():
        from lately import two
    assert loaded(package) == []
    assert two.NAME == "two"
    assert lately.two is two


def test_a_module_of_a_package_that_waits_is_imported_once_and_after_it(package: Path) -> None:
    """Its package imports it, and so does what it imports itself."""
    (package / "one.py").write_text((package / "one.py").read_text() + "from lately import two\n")
    with on_first_use():
        from lately import two
    one = importlib.import_module("lately.one")
    assert loaded(package)[:2] == ["lately", "lately.one"]
    assert loaded(package).count("lately.one") == 1
    assert (one.NAME, two.NAME) == ("one", "two")
    assert sys.modules["lately"].one is sys.modules["lately.one"] is one
    assert one.__spec__ is not None
    assert one.__spec__.origin == str(package / "one.py")


def test_names_are_no_modules(package: Path) -> None:
    with pytest.raises(ImportError, match="NAME"), on_first_use():
        from lately.one import NAME  # noqa: F401
    with pytest.raises(ModuleNotFoundError, match="nowhere"), on_first_use():
        import lately.nowhere  # type: ignore[import-not-found]  # noqa: F401
    assert loaded(package) == []


def test_after_the_block_imports_load(package: Path) -> None:
    with on_first_use():
        pass
    import lately

    assert loaded(package)
    assert type(lately) is ModuleType


def test_an_error_in_a_module_comes_at_each_use(package: Path) -> None:
    with on_first_use():
        from lately import broken
    for _ in range(2):
        with pytest.raises(ValueError, match="not today"):
            broken.NAME  # noqa: B018


def test_a_name_that_is_not_there_is_an_attribute_error(package: Path) -> None:
    with on_first_use():
        from lately import one
    with pytest.raises(AttributeError, match="other"):
        one.other  # noqa: B018


def test_many_threads_load_it_once(package: Path) -> None:
    with on_first_use():
        from lately import one
    found: list[str] = []
    barrier = threading.Barrier(8)

    def use() -> None:
        barrier.wait()
        found.append(one.NAME)

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert found == ["one"] * 8
    assert loaded(package).count("lately.one") == 1


def test_another_threads_imports_load_at_once(package: Path) -> None:
    with on_first_use():
        thread = threading.Thread(target=importlib.import_module, args=("lately.two",))
        thread.start()
        thread.join(10)
        assert "lately.two" in loaded(package)
