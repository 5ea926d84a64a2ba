"""How programs in other languages fail, tools, and Python through more than one exception: written
after the rules had been frozen and before any of them was run, by somebody who knew the rules.
"""

from __future__ import annotations

import asyncio
import faulthandler
import http.server
import logging
import multiprocessing
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .faults import fault, limit, used_bytes
from .further_faults import become_nobody, end_as, file_with

Do = Callable[[], object]


def program(failure: str, needs: str, *, held_out: bool = True) -> Callable[[Do], Do]:
    """A fault of a program that is run by ``needs``: left out where that is not installed."""

    def add(do: Do) -> Do:
        return fault(failure, held_out=held_out)(do) if shutil.which(needs) else do

    return add


def run_source(name: str, code: str, *command: str) -> None:
    """Run the code by this command, ``{}`` standing for its file; ends with its exit code."""
    with file_with(code.encode(), name) as path:
        end_as(*(word.replace("{}", str(path)) for word in command))


def run_native(code: str) -> None:
    with file_with(code.encode(), "step.cc") as path:
        binary = path.with_suffix(".bin")
        subprocess.run(["g++", "-g", "-o", binary, path], check=True)
        end_as(binary)


# ---- C++ -----------------------------------------------------------------------------------------


@program("semantic-error", "g++")
def beyond_the_end_of_a_vector() -> None:
    run_native("#include <vector>\nint main() { std::vector<int> v(3); return v.at(7); }\n")


@program("cpu-out-of-memory", "g++")
def memory_of_a_vector() -> None:
    limit(resource.RLIMIT_AS, 4 << 30)
    run_native("#include <vector>\nint main() { std::vector<char> v(1ul << 36); return v[1]; }\n")


@program("invalid-memory-access", "g++")
def buffer_freed_twice() -> None:
    run_native(
        "#include <cstdlib>\n"
        "int main() { void *one = malloc(64); free(one); free(one); return 0; }\n"
    )


@program("incorrect-inputs", "g++")
def label_that_is_no_number() -> None:
    run_native('#include <string>\nint main() { return std::stoi(std::string("n/a")); }\n')


@program("incorrect-inputs", "g++")
def index_file_not_there() -> None:
    run_native(
        "#include <filesystem>\n"
        'int main() { return std::filesystem::file_size("/data/train.idx") > 0; }\n'
    )


@program("core-dump", "g++")
def invariant_of_native_code() -> None:
    run_native(
        "#include <cassert>\nint main(int count, char **) { assert(count == 8); return 0; }\n"
    )


# ---- Java ----------------------------------------------------------------------------------------

JAVA = """
import java.util.*; import java.nio.file.*; import java.net.*;
public class Step {{ public static void main(String[] words) throws Exception {{ {} }} }}
"""


def run_java(body: str, *options: str) -> None:
    run_source("Step.java", JAVA.format(body), "java", *options, "{}")


@program("semantic-error", "java")
def null_in_java() -> None:
    run_java('Map<String, String> m = new HashMap<>(); System.out.println(m.get("a").length());')


@program("import-error", "java")
def jar_without_the_class() -> None:
    end_as("java", "-cp", "/tmp", "org.example.Train")


@program("cpu-out-of-memory", "java")
def heap_of_java() -> None:
    run_java(
        "List<long[]> l = new ArrayList<>(); while (true) l.add(new long[1 << 20]);", "-Xmx64m"
    )


@program("incorrect-inputs", "java")
def file_of_java_not_there() -> None:
    run_java('System.out.println(Files.readString(Path.of("/data/vocabulary.txt")));')


@program("port-in-use", "java")
def port_of_java_taken() -> None:
    run_java("ServerSocket s = new ServerSocket(0); new ServerSocket(s.getLocalPort());")


@program("incorrect-inputs", "java")
def column_of_java_no_number() -> None:
    run_java('System.out.println(Integer.parseInt("12,5"));')


# ---- node, perl, go, rust ------------------------------------------------------------------------


@program("import-error", "node")
def package_of_node_missing() -> None:
    run_source("step.js", "const parse = require('csv-parse');\n", "node", "{}")


@program("incorrect-inputs", "node")
def manifest_cut_short_for_node() -> None:
    with file_with(b'{"files": ["a.rec", "b.', "manifest.json") as path:
        code = f"JSON.parse(require('fs').readFileSync('{path}', 'utf8'));\n"
        run_source("step.js", code, "node", "{}")


@program("port-in-use", "node")
def port_of_node_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        code = f"require('http').createServer().listen({port}, '127.0.0.1');\n"
        run_source("step.js", code, "node", "{}")


@program("import-error", "perl")
def module_of_perl_missing() -> None:
    run_source("tokens.pl", "use Text::Tokenizer::Fast;\n", "perl", "{}")


@program("semantic-error", "go")
def beyond_the_end_of_a_slice() -> None:
    code = 'package main\nimport "os"\nfunc main() { println(os.Args[len(os.Args)+3]) }\n'
    run_source("step.go", code, "go", "run", "{}")


def run_rust(code: str) -> None:
    with file_with(code.encode(), "step.rs") as path:
        binary = path.with_suffix(".bin")
        subprocess.run(["rustc", "-o", binary, path], check=True)
        end_as(binary)


@program("semantic-error", "rustc")
def nothing_to_unwrap() -> None:
    run_rust('fn main() { let n: Vec<u8> = Vec::new(); println!("{}", n.iter().max().unwrap()); }')


@program("incorrect-inputs", "rustc")
def digits_expected_by_rust() -> None:
    run_rust('fn main() { let n: i64 = "4O96".parse().unwrap(); println!("{}", n); }')


# ---- tools and shells ----------------------------------------------------------------------------


@fault("semantic-error")
def mean_of_no_rows() -> None:
    end_as("bash", "-euc", "rows=0; mean=$((5 / rows)); echo $mean")


@program("incorrect-inputs", "sqlite3")
def table_not_in_the_database() -> None:
    end_as("sqlite3", "/tmp/none-of-this-name.db", "select * from examples")


@program("communication-error", "curl")
def host_of_the_weights_unknown() -> None:
    end_as("curl", "-fsSLO", "http://weights.invalid/model.bin")


class _Answers(http.server.BaseHTTPRequestHandler):
    code = 404

    def do_GET(self) -> None:
        self.send_error(self.code)

    def log_message(self, *_: object) -> None:
        pass


def server_that_answers(code: int) -> str:
    answers = type("Answers", (_Answers,), {"code": code})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/model.bin"


@program("incorrect-inputs", "curl")
def weights_not_on_the_server() -> None:
    end_as("curl", "-fsS", "-o", "/dev/null", server_that_answers(404))


@program("incorrect-inputs", "sha256sum")
def sums_do_not_match() -> None:
    with file_with(b"damaged", "shard-0.bin") as path:
        sums = path.with_name("SHA256SUMS")
        sums.write_text(f"{'0' * 64}  {path}\n")
        end_as("sha256sum", "-c", sums)


@program("incorrect-inputs", "make")
def nothing_makes_the_features() -> None:
    run_source("Makefile", "model.bin: features.npy\n\tcp $< $@\n", "make", "-f", "{}", "model.bin")


@program("semantic-error", "bash")
def variable_of_the_site_not_set() -> None:
    end_as("bash", "-euc", "python3 train.py --data $SITE_DATA_ROOT/train")


@program("limit-exceeded", "bash")
def shell_cannot_fork() -> None:
    become_nobody()
    end_as("bash", "-c", "ulimit -u 1; (sleep 1; true); (sleep 1; true)")


# ---- Python: services, settings, numbers ---------------------------------------------------------


@fault("communication-error", held_out=True)
def registry_answers_with_an_error() -> None:
    import requests

    requests.get(server_that_answers(500), timeout=10).raise_for_status()


@fault("semantic-error", held_out=True)
def settings_against_their_schema() -> None:
    import jsonschema

    schema = {"type": "object", "properties": {"batch": {"type": "integer", "minimum": 1}}}
    jsonschema.validate({"batch": 0}, schema)


@fault("incorrect-inputs", held_out=True)
def line_of_orjson_damaged() -> object:
    import orjson

    return [orjson.loads(line) for line in (b'{"text": "a"}', b'{"text": "b')]


@fault("incorrect-inputs", held_out=True)
def settings_of_toml_damaged() -> object:
    import tomllib

    with (
        file_with(b"[model]\nlayers = 12\nwidth 768\n", "model.toml") as path,
        path.open("rb") as f,
    ):
        return tomllib.load(f)


@fault("incorrect-inputs")
def block_of_lz4_damaged() -> object:
    import lz4.frame

    whole = lz4.frame.compress(os.urandom(10_000), content_checksum=True)
    return lz4.frame.decompress(whole[:100] + b"\0" * 50 + whole[150:])


@fault("semantic-error", held_out=True)
def gradient_of_an_integer() -> object:
    import jax

    return jax.grad(lambda x: x * 2)(3)


@fault("semantic-error", held_out=True)
def scaler_of_other_features() -> object:
    import numpy as np
    from sklearn.preprocessing import StandardScaler

    return StandardScaler().fit(np.ones((5, 4))).transform(np.ones((5, 3)))


# ---- Python: more than one exception -------------------------------------------------------------


@fault("permission-error", held_out=True)
def forbidden_in_a_group_in_a_group() -> None:
    async def write() -> None:
        Path("/proc/sys/kernel/hostname").write_text("x")

    async def inner() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(write())

    async def outer() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(inner())

    become_nobody()
    asyncio.run(outer())


@fault("cpu-out-of-memory", held_out=True)
def memory_behind_another_exception() -> None:
    import numpy as np

    class StepFailed(Exception):
        pass

    limit(resource.RLIMIT_AS, used_bytes() + (1 << 28))
    try:
        np.ones((1 << 15, 1 << 15))
    except MemoryError as error:
        raise StepFailed("step 12 of worker 3") from error


@fault("incorrect-inputs", held_out=True)
def missing_behind_another_exception() -> None:
    class DataModuleError(RuntimeError):
        pass

    def read(name: str) -> str:
        return Path("/data/folds", name).read_text()

    with ThreadPoolExecutor(2) as pool:
        try:
            list(pool.map(read, ["fold-1.txt", "fold-2.txt"]))
        except OSError as error:
            raise DataModuleError("the data module could not be set up") from error


@fault("semantic-error", held_out=True)
def logged_as_critical_and_ended() -> None:
    log = logging.getLogger("train")
    logging.basicConfig()
    try:
        print(sum([]) / len([]))
    except ArithmeticError:
        log.critical("training is aborted", exc_info=True)
        time.sleep(0.1)
        sys.exit(3)


def _decode(data: bytes) -> str:
    return data.decode()


@fault("incorrect-inputs", held_out=True)
def text_of_a_pool_not_utf8() -> object:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return pool.map(_decode, [b"caf\xc3\xa9", b"caf\xe9"])


@fault("hang", held_out=True)
def own_watchdog_ends_it() -> None:
    faulthandler.dump_traceback_later(1, exit=True)
    with tempfile.TemporaryDirectory():
        threading.Event().wait(60)
