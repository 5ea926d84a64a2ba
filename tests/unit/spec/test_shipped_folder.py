"""What of a local directory is shipped, and what its user is told of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from yarnam.errors import BadSpec
from yarnam.spec.shipping import shipped_folder as module
from yarnam.spec.shipping.shipped_folder import LocalFolder, ShippedFolder, shipped_folder


def write(folder: Path, **files: str) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def names(shipped: ShippedFolder) -> set[str]:
    return {path for path, _ in shipped.files}


def test_an_ignore_file_has_gits_syntax(tmp_path: Path) -> None:
    write(
        tmp_path,
        **{
            "train.py": "1", "data/train.bin": "1234", "data/keep.txt": "1", "logs/a.log": "1",
            "pkg/deep/b.log": "1", "pkg/deep/important.log": "1", "build/x": "1",
            "pkg/build/x": "1",
            ".yarnamignore": "# large\n*.bin\n*.log\n!important.log\n/build/\n",
        },
    )  # fmt: skip
    shipped = shipped_folder(tmp_path)
    assert names(shipped) == {
        "train.py", "data/keep.txt", "pkg/deep/important.log", "pkg/build/x",
    }  # fmt: skip
    assert shipped.ignored_files == 3, "those of a directory that is not entered are not counted"
    assert "build" not in shipped.folders


def test_gits_own_files_count_where_they_are_asked_for(tmp_path: Path) -> None:
    write(
        tmp_path,
        **{
            ".gitignore": "*.so\ndata\n", "fast.so": "1", "data/a": "1",
            "pkg/.gitignore": "!fast.so\n",
            "pkg/fast.so": "1", ".yarnamignore": "!data\npkg/secret.txt\n", "pkg/secret.txt": "1",
        },
    )  # fmt: skip
    everything = names(shipped_folder(tmp_path))
    assert {"fast.so", "data/a", "pkg/fast.so"} <= everything
    assert names(shipped_folder(tmp_path, uses_git=True)) == {
        ".gitignore", "data/a", "pkg/.gitignore", "pkg/fast.so",
    }  # fmt: skip


@pytest.mark.parametrize("content", [b"\xff\xfe", b"#" * ((1 << 20) + 1)])
def test_a_bad_ignore_file_is_an_error_with_its_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".yarnamignore").write_bytes(content)
    with pytest.raises(BadSpec, match=r"\.yarnamignore"):
        shipped_folder(tmp_path)


def test_much_and_secret_is_told_before_it_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, **{"train.py": "x" * 10, "data/a.bin": "x" * 5000, "data/b.bin": "x" * 4000})
    assert shipped_folder(tmp_path).notices("code") == ()
    assert shipped_folder(tmp_path).summary("code") == "'code': 3 files, 8.8 KiB"
    monkeypatch.setattr(module, "LARGE_BYTES", 8000)
    (notice,) = shipped_folder(tmp_path).notices("code")
    assert "'code' has 8.8 KiB in 3 files; the largest: data/a.bin (4.9 KiB), data/b.bin" in notice
    assert ".yarnamignore" in notice
    write(tmp_path, **{".env": "TOKEN=1", "keys/id_ed25519": "1", "a.PEM": "1", "x/.netrc": "1"})
    _, notice = shipped_folder(tmp_path).notices("code")
    assert "looks like a secret: .env, a.PEM, keys/id_ed25519 and 1 more" in notice
    write(tmp_path, **{".yarnamignore": ".env\n*.PEM\nkeys\nx\n*.bin\n"})
    assert shipped_folder(tmp_path).notices("code") == ()
    assert shipped_folder(tmp_path).summary("code") == "'code': 1 files, 10 B, 4 left out"


@pytest.mark.parametrize("uses_git", [False, True])
def test_one_path_is_judged_as_in_the_walk(tmp_path: Path, *, uses_git: bool) -> None:
    files = (
        "train.py", "a/b/c.py", "a/left/c.py", "a/b/x.log", "a/b/y.log", ".venv/x.py",
        "a/built/z.py",
    )  # fmt: skip
    write(tmp_path, **dict.fromkeys(files, "1"))
    write(tmp_path, **{".yarnamignore": "left\n*.log\n", "a/.gitignore": "built\n!x.log\n"})
    folder = LocalFolder(tmp_path, uses_git=uses_git)
    shipped = folder.content()
    for path in (*files, "a", "a/b", "a/left", "a/built", "none.py"):
        assert folder.ships(path) == (path in {*names(shipped), *shipped.folders}), path
