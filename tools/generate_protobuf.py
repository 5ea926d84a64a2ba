"""Regenerate the gRPC stubs in yarnam/wire/pb from yarnam.proto.

Run after a change of the proto: ``python tools/generate_protobuf.py``. ``--check`` exits 1 when
the checked-in stubs are not what the proto says. The stubs' own version check is what makes the
oldest protobuf release that this can run with; see pyproject.toml.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

HERE = Path(__file__).resolve().parent.parent
PROTO = HERE / "yarnam/wire/pb/yarnam.proto"
NAMES = ("yarnam_pb2.py", "yarnam_pb2.pyi", "yarnam_pb2_grpc.py")


def generate(out: Path) -> dict[str, str]:
    code = protoc.main(
        [
            "protoc",
            f"-I{PROTO.parent}",
            f"--python_out={out}",
            f"--pyi_out={out}",
            f"--grpc_python_out={out}",
            str(PROTO),
        ]
    )
    if code:
        raise SystemExit(code)
    texts = {name: (out / name).read_text() for name in NAMES}
    grpc = texts["yarnam_pb2_grpc.py"]
    texts["yarnam_pb2_grpc.py"] = grpc.replace(
        "import yarnam_pb2 as yarnam__pb2", "from yarnam.wire.pb import yarnam_pb2 as yarnam__pb2"
    )
    return texts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as folder:
        texts = generate(Path(folder))
    stale = (
        [name for name, text in texts.items() if (PROTO.parent / name).read_text() != text]
        if check
        else []
    )
    if stale:
        print(f"stale stubs: {', '.join(stale)}; run python tools/generate_protobuf.py")
        return 1
    if not check:
        for name, text in texts.items():
            (PROTO.parent / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
