"""What is not loaded at the start, and that it is there as soon as it is wanted."""

from __future__ import annotations

import subprocess
import sys

AGENT = """
import gc, sys
from yarnam.wire.light_imports import light_imports
with light_imports(without_ssl=True):
    from yarnam.agent import life
"""


def say(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_agent_loads_neither_ssl_nor_protobuf_in_python() -> None:
    heavy = ("ssl", "google.protobuf.internal.containers", "google.protobuf.text_format")
    assert say(f"{AGENT}\nprint([name for name in {heavy} if name in sys.modules])") == "[]"


def test_the_agent_loads_nothing_of_the_model_but_ids_and_outcomes() -> None:
    """A hundred frozen classes take 30 ms to make, in each container."""
    program = (
        f"{AGENT}\nprint(sorted(name for name in sys.modules"
        " if name.startswith(('yarnam.model.', 'yarnam.train.', 'yarnam.gang', 'hdfs_utils'))))"
    )
    assert say(program) == "['yarnam.model.ids', 'yarnam.model.outcomes']"


def test_ssl_is_there_for_who_wants_it_later() -> None:
    assert say(f"{AGENT}\nimport ssl\nprint(ssl.create_default_context().check_hostname)") == "True"


def test_protobuf_in_python_is_loaded_by_the_first_look_into_it() -> None:
    # text_format prints through parts of it.
    program = (
        f"{AGENT}\nfrom google.protobuf import text_format"
        "\nfrom google.protobuf.internal import python_message"
        "\nprint(python_message.GeneratedProtocolMessageType.__name__)"
        "\nprint(text_format.MessageToString(life.pb.DirectiveRequest(ask='worker-0.1')))"
        "\nprint(sys.modules['google.protobuf.internal.python_message'].__file__ is not None)"
    )
    assert say(program).split() == ["GeneratedProtocolMessageType", "ask:", '"worker-0.1"', "True"]


def test_the_garbage_collector_works_afterwards() -> None:
    assert say(f"{AGENT}\nprint(gc.isenabled(), gc.get_freeze_count() > 1000)") == "True True"


def test_a_process_that_has_ssl_keeps_it() -> None:
    assert say(f"import ssl as before{AGENT}\nprint(sys.modules['ssl'] is before)") == "True"
    assert say(f"{AGENT.replace('=True', '=False')}\nprint('ssl' in sys.modules)") == "True"


def test_a_failed_import_leaves_nothing_changed() -> None:
    program = (
        "import gc, sys\nfrom yarnam.wire.light_imports import light_imports"
        "\ntry:\n    with light_imports(without_ssl=True):\n        import no_such_module"
        "\nexcept ModuleNotFoundError as error:\n    print(error.name, gc.isenabled())"
        "\nimport ssl"
    )
    assert say(program) == "no_such_module True"
