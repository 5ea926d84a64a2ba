"""Further ways to fail, by what else training programs use: written after the rules had been frozen
and before any of them was run, by somebody who knew half of the rules.
"""

from __future__ import annotations

import asyncio
import base64
import http.client
import importlib.metadata
import mmap
import multiprocessing.managers
import os
import resource
import signal
import socket
import sqlite3
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import wave
import xml.etree.ElementTree as ET
import zipfile
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from .faults import fault, limit, used_bytes
from .further_faults import become_nobody, end_as, file_with
from .program_faults import program, run_java, run_native, run_source


def taken_port() -> int:
    """One on which this process listens until it ends."""
    server = socket.create_server(("", 0))
    HELD.append(server)
    return int(server.getsockname()[1])


HELD: list[socket.socket] = []


# ---- inputs --------------------------------------------------------------------------------------


@fault("incorrect-inputs", held_out=True)
def header_of_safetensors_damaged() -> object:
    from safetensors.numpy import load_file

    with file_with(b"\x10" + b"\0" * 7 + b"no header at all", "model.safetensors") as path:
        return load_file(path)


@fault("incorrect-inputs", held_out=True)
def boxes_in_bad_xml() -> object:
    with file_with(b"<annotation><object><name>cat</object></annotation>", "7.xml") as path:
        return ET.parse(path)


@fault("incorrect-inputs", held_out=True)
def index_is_no_database() -> object:
    with file_with(b"key,offset\n" * 400, "index.db") as path:
        return sqlite3.connect(path).execute("SELECT * FROM samples").fetchall()


@fault("incorrect-inputs", held_out=True)
def speech_without_a_header() -> object:
    with file_with(b"\0" * 4000, "utterance.wav") as path:
        return wave.open(str(path))


@fault("incorrect-inputs", held_out=True)
def record_header_cut_short() -> object:
    with file_with(b"\x20\0\0\0\0\0", "part-0.rec") as path:
        return struct.unpack("<QI", path.read_bytes()[:12])


@fault("incorrect-inputs", held_out=True)
def picture_in_bad_base64() -> object:
    with file_with(b"aGVsbG8gd29ybG", "0.b64") as path:
        return base64.b64decode(path.read_bytes())


@fault("incorrect-inputs", held_out=True)
def table_is_no_arrow_file() -> object:
    import pyarrow as pa

    with file_with(b"ARROW2" * 50, "part.arrow") as path:
        return pa.ipc.open_file(path)


@fault("incorrect-inputs", held_out=True)
def example_is_no_message() -> object:
    from google.protobuf.struct_pb2 import Struct

    with file_with(b"\x0a\xff\xff\xff\x0fzzz", "example.pb") as path:
        return Struct.FromString(path.read_bytes())


@fault("incorrect-inputs", held_out=True)
def tokens_of_an_empty_file() -> object:
    import numpy as np

    with file_with(b"", "train.bin") as path:
        return np.memmap(path, dtype=np.uint16, mode="r")


@program("incorrect-inputs", "gzip")
def download_is_no_gzip() -> None:
    with file_with(b"<html>404 Not Found</html>", "train.csv.gz") as path:
        end_as("gzip", "-dk", path)


@program("incorrect-inputs", "tar")
def download_is_no_archive() -> None:
    with file_with(b"<html>404 Not Found</html>" * 40, "train.tar") as path:
        end_as("tar", "-C", path.parent, "-xf", path)


@program("incorrect-inputs", "tclsh")
def file_of_tcl_not_there() -> None:
    run_source("step.tcl", "set f [open /data/part-00007.txt]\n", "tclsh", "{}")


@program("incorrect-inputs", "perl")
def file_of_perl_not_there() -> None:
    code = "open(my $f, '<', '/data/part-00007.txt') or die \"cannot read part 7: $!\";\n"
    run_source("step.pl", code, "perl", "{}")


# ---- mistakes of the program ---------------------------------------------------------------------


@fault("semantic-error", held_out=True)
def waits_outside_of_a_loop() -> object:
    async def fetch() -> None: ...

    task = fetch()
    return asyncio.get_running_loop().create_task(task)


@fault("semantic-error", held_out=True)
def never_ends_to_call_itself() -> object:
    def depth(tree: object) -> int:
        return 1 + depth(tree)

    return depth(None)


@fault("semantic-error", held_out=True)
def next_of_nothing() -> object:
    return next(iter([]))


@fault("semantic-error")
def setting_that_cannot_be_set() -> None:
    @dataclass(frozen=True)
    class Settings:
        rate: float = 0.1

    Settings().rate = 0.2  # type: ignore[misc]


@fault("semantic-error", held_out=True)
def scaler_not_fitted() -> object:
    from sklearn.preprocessing import StandardScaler

    return StandardScaler().transform([[1.0, 2.0]])


@fault("semantic-error", held_out=True)
def groups_changed_in_a_loop() -> None:
    groups = {"decay": 1, "no_decay": 2}
    for name in groups:
        groups[name + "_late"] = 3


@fault("semantic-error", held_out=True)
def model_without_its_step() -> object:
    class Model(ABC):
        @abstractmethod
        def step(self) -> float: ...

    return Model()  # type: ignore[abstract]


@fault("semantic-error", held_out=True)
def option_not_in_the_settings() -> object:
    from omegaconf import OmegaConf

    settings = OmegaConf.create({"optimizer": {"name": "adam"}})
    OmegaConf.set_struct(settings, True)
    return settings.optimizer.weight_decay


@program("semantic-error", "bash")
def steps_divided_by_no_nodes() -> None:
    end_as("bash", "-c", "nodes=0; echo $((1000 / nodes)); exit $?")


@program("semantic-error", "perl")
def method_of_perl_missing() -> None:
    run_source("step.pl", "my $m = bless {}, 'Model'; $m->train(3);\n", "perl", "{}")


@program("semantic-error", "node", held_out=False)
def undefined_in_node() -> None:
    run_source("step.js", "const model = {};\nmodel.layers.push(1);\n", "node", "{}")


@program("semantic-error", "tclsh", held_out=False)
def variable_of_tcl_missing() -> None:
    run_source("step.tcl", "puts [expr {$rate * 2}]\n", "tclsh", "{}")


@program("semantic-error", "java")
def cast_in_java() -> None:
    run_java("Object o = List.of(1); System.out.println((String) o);")


# ---- imports and libraries -----------------------------------------------------------------------


@fault("import-error", held_out=True)
def plugin_not_installed() -> object:
    return importlib.metadata.version("yet-another-optimizer")


@fault("import-error", held_out=True)
def function_of_a_newer_scipy() -> object:
    from scipy.special import log_bessel_of_all  # type: ignore[attr-defined]

    return log_bessel_of_all


@program("import-error", "tclsh", held_out=False)
def package_of_tcl_missing() -> None:
    run_source("step.tcl", "package require yaml_reader 2.0\n", "tclsh", "{}")


@program("library-not-loaded", "g++")
def library_of_a_program_gone() -> None:
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "libkernels.so")
        Path(folder, "k.cc").write_text("int kernel() { return 1; }\n")
        Path(folder, "m.cc").write_text("int kernel(); int main() { return kernel() - 1; }\n")
        subprocess.run(["g++", "-shared", "-fPIC", "-o", library, f"{folder}/k.cc"], check=True)
        subprocess.run(["g++", "-o", f"{folder}/m", f"{folder}/m.cc", library], check=True)
        library.unlink()
        end_as(f"{folder}/m")


@program("library-not-loaded", "java")
def library_of_java_missing() -> None:
    run_java('System.loadLibrary("hadoop_kernels");')


@program("library-not-loaded", "node")
def addon_of_node_damaged() -> None:
    with file_with(b"\x7fELF and nothing else" * 9, "kernel.node") as path:
        run_source("step.js", f"require('{path}');\n", "node", "{}")


# ---- commands and syntax -------------------------------------------------------------------------


@program("command-not-found", "xargs")
def command_of_xargs_missing() -> None:
    end_as("bash", "-c", "echo a b | xargs train-one-shard")


@program("command-not-found", "env")
def command_of_env_missing() -> None:
    end_as("env", "OMP_NUM_THREADS=1", "train-model", "--steps", "10")


@fault("command-not-found")
def becomes_a_command_that_is_missing() -> None:
    os.execvp("train-model", ["train-model"])


@program("syntax-error", "perl")
def syntax_of_perl() -> None:
    run_source("step.pl", "my $x = (1 + ;\nprint $x;\n", "perl", "{}")


@program("syntax-error", "node")
def syntax_of_node() -> None:
    run_source("step.js", "const a = {b: 1;\n", "node", "{}")


@program("syntax-error", "mawk", held_out=False)
def syntax_of_awk() -> None:
    end_as("mawk", "BEGIN { print (1 + }")


@program("syntax-error", "make", held_out=False)
def spaces_for_a_tab() -> None:
    with file_with(b"all:\n        echo train\n", "Makefile") as path:
        end_as("make", "-f", path)


# ---- memory, disks and limits --------------------------------------------------------------------


@fault("cpu-out-of-memory", held_out=True)
def memory_of_a_mapping() -> object:
    limit(resource.RLIMIT_AS, used_bytes() + (64 << 20))
    return mmap.mmap(-1, 1 << 33)


@program("cpu-out-of-memory", "node")
def heap_of_node() -> None:
    code = "const a = []; for (;;) a.push(new Array(100000).fill(Math.random()));\n"
    run_source("step.js", code, "node", "--max-old-space-size=24", "{}")


@program("cpu-out-of-memory", "perl")
def memory_of_perl() -> None:
    run_source("step.pl", "my $x = 'x' x (1 << 34);\n", "bash", "-c", "ulimit -v 500000; perl {}")


@fault("disk-full", held_out=True)
def trials_fill_their_database() -> None:
    with tempfile.TemporaryDirectory() as folder:
        base = sqlite3.connect(f"{folder}/trials.db")
        base.execute("CREATE TABLE trials (name TEXT)")
        base.execute("PRAGMA max_page_count = 4")
        for _ in range(100):
            base.execute("INSERT INTO trials VALUES (?)", ("x" * 4000,))


@fault("disk-full", held_out=True)
def results_zipped_onto_a_full_disk() -> None:
    with zipfile.ZipFile("/dev/full", "w") as archive:
        archive.writestr("weights.bin", os.urandom(1 << 20))


@program("disk-full", "node")
def results_of_node_onto_a_full_disk() -> None:
    code = "require('fs').writeFileSync('/dev/full', 'x'.repeat(100000));\n"
    run_source("step.js", code, "node", "{}")


@program("disk-full", "tee")
def results_of_tee_onto_a_full_disk() -> None:
    end_as("bash", "-c", "set -o pipefail; seq 100000 | tee /dev/full > /dev/null")


@fault("limit-exceeded", held_out=True)
def pairs_of_sockets_all_open() -> None:
    limit(resource.RLIMIT_NOFILE, 60)
    for _ in range(100):
        HELD.extend(socket.socketpair())


@program("invalid-memory-access", "g++")
def stack_of_native_code_overrun() -> None:
    run_native(
        "#include <cstring>\nint f(int n) { volatile char b[9000]; memset((char*)b, n, 9000);\n"
        "  return f(n + 1) + b[n % 9000]; }\nint main() { return f(0); }\n"
    )


@program("core-dump", "g++")
def divided_by_zero_in_native_code() -> None:
    run_native("int main(int c, char**) { volatile int z = c - 1; return 7 / z; }\n")


# ---- permissions ---------------------------------------------------------------------------------


@fault("permission-error", held_out=True)
def index_that_may_not_be_written() -> None:
    with file_with(b"", "index.db") as path:
        sqlite3.connect(path).execute("CREATE TABLE samples (key TEXT)").connection.close()
        path.chmod(0o444)
        path.parent.chmod(0o755)
        become_nobody()
        sqlite3.connect(path).execute("INSERT INTO samples VALUES ('a')")


@program("permission-error", "cp")
def copied_where_it_may_not() -> None:
    with file_with(b"weights", "last.ckpt") as path:
        path.parent.chmod(0o755)
        become_nobody()
        end_as("cp", path, "/etc/last.ckpt")


@fault("permission-error", held_out=True)
def others_process_not_to_be_ended() -> None:
    become_nobody()
    os.kill(1, signal.SIGTERM)


@program("permission-error", "node")
def folder_of_node_forbidden() -> None:
    with file_with(b"require('fs').mkdirSync('/etc/runs');\n", "step.js") as path:
        path.parent.chmod(0o755)
        become_nobody()
        end_as("node", path)


# ---- ports and connections -----------------------------------------------------------------------


@fault("port-in-use", held_out=True)
def port_of_a_file_server_taken() -> None:
    end_as(sys.executable, "-m", "http.server", str(taken_port()))


@fault("port-in-use", held_out=True)
def port_of_a_shared_queue_taken() -> None:
    class Shared(multiprocessing.managers.BaseManager): ...

    Shared(("", taken_port()), authkey=b"x").start()


@program("port-in-use", "perl")
def port_of_perl_taken() -> None:
    code = (
        "use IO::Socket::INET;\nmy $s = IO::Socket::INET->new(Listen => 1, "
        f'LocalPort => {taken_port()}) or die "cannot listen: $@";\n'
    )
    run_source("step.pl", code, "perl", "{}")


@program("communication-error", "curl", held_out=False)
def nobody_there_for_curl() -> None:
    end_as("curl", "-sS", "--noproxy", "*", "http://127.0.0.1:1/shards.json")


@program("communication-error", "node", held_out=False)
def nobody_there_for_node() -> None:
    run_source(
        "step.js",
        "await fetch('http://127.0.0.1:9/');\n".join(["(async () => {\n", "})();\n"]),
        "node",
        "{}",
    )


@program("communication-error", "java")
def nobody_there_for_java() -> None:
    run_java('new Socket("127.0.0.1", 9);')


def answer_once(data: bytes) -> int:
    """Port of a server that answers one connection with this and closes it."""
    server = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        link, _ = server.accept()
        link.recv(4096)
        link.sendall(data)
        link.close()

    threading.Thread(target=answer, daemon=True).start()
    return int(server.getsockname()[1])


@fault("communication-error", held_out=True)
def answer_cut_short() -> object:
    port = answer_once(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\nhalf")
    link = http.client.HTTPConnection("127.0.0.1", port)
    link.request("GET", "/shards.json")
    return link.getresponse().read()


@fault("communication-error", held_out=True)
def server_speaks_no_tls() -> object:
    port = answer_once(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    plain = socket.create_connection(("127.0.0.1", port))
    return ssl.create_default_context().wrap_socket(plain, server_hostname="localhost")


# ---- the rest ------------------------------------------------------------------------------------


@fault("diverged", held_out=True)
def exponent_overflows() -> object:
    import numpy as np

    with np.errstate(all="raise"):
        return np.exp(np.full(3, 5000.0))


@fault("killed", held_out=True)
def terminal_hangs_up() -> None:
    os.kill(os.getpid(), signal.SIGHUP)


@program("killed", "make", held_out=False)
def recipe_killed() -> None:
    with file_with(b"all:\n\t@kill -9 $$$$\n", "Makefile") as path:
        end_as("make", "-f", path)


@program("killed", "xargs")
def command_of_xargs_killed() -> None:
    end_as("bash", "-c", "echo a | xargs bash -c 'kill -9 $$'")


@fault("traceback", held_out=True)
def says_no_more_than_exception() -> None:
    raise Exception
