"""Environments that submit makes: what is in them, when they are made again, what is refused."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

import pytest

from hdfs_utils.transfer import NoProgress
from yarnam.client.environments import package_installer, packed_environment
from yarnam.client.environments.interpreter_archive import (
    Interpreter,
    has_debian_layout,
    interpreter_from,
)
from yarnam.client.environments.packed_environment import Recipe, build_environment, recipe_of
from yarnam.client.environments.programs import interpreter_facts
from yarnam.client.environments.requirement_files import (
    RequirementLine,
    lines_named_in,
    option_lines,
    requirement_lines,
)
from yarnam.client.site import cache_dir
from yarnam.core.model.job_spec import PackedFrom, PackSource
from yarnam.errors import BadConfig, BadSpec

CACHE = cache_dir(os.environ)
"""Of this user: the interpreter is in it once a test of the cluster has run."""


def wheel(
    folder: Path, name: str = "tiny", version: str = "1.0", more: Mapping[str, str] | None = None
) -> Path:
    """One module ``tiny``, and a program of that name."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": "def main():\n    import sys\n    print(sys.prefix)\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name}-run = {name}:main\n",
        **(more or {}),
    }
    files[f"{info}/RECORD"] = "".join(f"{each},,\n" for each in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for each, text in files.items():
            archive.writestr(each, text)
    return path


def made(kind: PackSource, path: Path | str, folder: Path) -> Path:
    """The environment, unpacked in another place than where it was made."""
    recipe = recipe_of(PackedFrom(kind, str(path)), CACHE, os.environ)
    where = folder / "cache"
    (where / "interpreters").parent.mkdir(exist_ok=True)
    (archive,) = build_environment(
        recipe, where, lambda _: None, lambda _: nullcontext(NoProgress())
    )
    unpacked = folder / "node" / "environment"
    with tarfile.open(archive) as tar:
        tar.extractall(unpacked)
    return unpacked


def run(environment: Path, *command: str) -> str:
    done = subprocess.run(
        [str(environment / "bin" / command[0]), *command[1:]],
        env={"PATH": os.defpath}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def requirements(tmp_path: Path) -> Path:
    wheel(tmp_path)
    inner = tmp_path / "inner.txt"
    inner.write_text("./tiny-1.0-py3-none-any.whl\n")
    file = tmp_path / "requirements.txt"
    file.write_text("# packages\n-r inner.txt\n")
    return file


def key_of(kind: PackSource, path: Path) -> str:
    return recipe_of(PackedFrom(kind, str(path)), CACHE, os.environ).key


@pytest.mark.slow
def test_requirements_become_an_environment_that_runs_anywhere(
    requirements: Path, tmp_path: Path
) -> None:
    environment = made(PackSource.REQUIREMENTS, requirements, tmp_path)
    assert run(environment, "python", "-c", "import tiny; tiny.main()") == str(environment)
    assert run(environment, "tiny-run") == str(environment)


def system_python() -> Interpreter | None:
    """Debian's or Ubuntu's, which has another layout; ``None`` on other systems."""
    program = "/usr/bin/python3"
    if not Path(program).exists():
        return None
    command = [program, "-I", interpreter_facts.__file__]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return None
    found = interpreter_from(json.loads(done.stdout))
    return found if has_debian_layout(found.stdlib) else None


@pytest.mark.slow
@pytest.mark.skipif(system_python() is None, reason="the system's Python has the usual layout")
def test_requirements_are_found_by_debians_python(
    requirements: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = system_python()
    assert python is not None
    monkeypatch.setattr(packed_environment, "own_interpreter", lambda: python)
    environment = made(PackSource.REQUIREMENTS, requirements, tmp_path)
    assert run(environment, "python", "-c", "import tiny; tiny.main()") == str(environment)
    assert run(environment, "tiny-run") == str(environment)


@pytest.mark.slow
def test_a_virtual_environment_is_packed_as_it_is(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    [site] = (venv / "lib").glob("python*/site-packages")
    with zipfile.ZipFile(wheel(tmp_path)) as archive:
        archive.extractall(site)
    script = venv / "bin" / "tiny-run"
    script.write_text(f"#!{venv}/bin/python\nimport tiny\ntiny.main()\n")
    script.chmod(0o755)
    environment = made(PackSource.VENV, venv, tmp_path)
    assert run(environment, "tiny-run") == str(environment)
    before = key_of(PackSource.VENV, venv)
    (site / "other.py").write_text("x = 1")
    assert key_of(PackSource.VENV, venv) != before


def test_the_name_follows_from_the_content(requirements: Path) -> None:
    first = key_of(PackSource.REQUIREMENTS, requirements)
    assert key_of(PackSource.REQUIREMENTS, requirements) == first
    for changed in ("inner.txt", "tiny-1.0-py3-none-any.whl"):
        file = requirements.parent / changed
        file.write_bytes(file.read_bytes() + b"\n# more\n")
        second = key_of(PackSource.REQUIREMENTS, requirements)
        assert second != first
        first = second


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index with ``tiny`` 1.0, the only one."""
    folder = tmp_path / "index"
    folder.mkdir()
    wheel(folder)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setattr(package_installer, "find_uv", lambda: "")
    return folder


@pytest.fixture
def unpinned(tmp_path: Path) -> Path:
    file = tmp_path / "requirements.txt"
    file.write_text("tiny\n")
    return file


def recipe(file: Path, cache: Path) -> Recipe:
    return recipe_of(PackedFrom(PackSource.REQUIREMENTS, str(file)), cache, os.environ)


def age(cache: Path, hours: float) -> None:
    for note in (cache / "resolved").iterdir():
        os.utime(note, (time.time() - hours * 3600,) * 2)


def test_a_corrected_index_gives_another_environment(
    index: Path, unpinned: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    wrong = wheel(index, version="9.0")
    first = recipe(unpinned, cache).key
    wrong.unlink()
    assert recipe(unpinned, cache).key == first, "jobs in a row get the same"
    age(cache, 2)
    corrected = recipe(unpinned, cache).key
    assert corrected != first
    with zipfile.ZipFile(index / "tiny-1.0-py3-none-any.whl", "a") as archive:
        archive.writestr("tiny_more.py", "")
    age(cache, 2)
    assert recipe(unpinned, cache).key not in (first, corrected), "the hash is another"


def test_so_do_other_index_settings(
    index: Path, unpinned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = recipe(unpinned, tmp_path / "cache").key
    (tmp_path / "pip.conf").write_text("[global]\ntimeout = 10\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    second = recipe(unpinned, tmp_path / "cache").key
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://index.example/simple")
    assert len({first, second, recipe(unpinned, tmp_path / "cache").key}) == 3


def test_without_an_index_the_packages_are_those_of_before(
    index: Path, unpinned: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = recipe(unpinned, tmp_path / "cache").key
    (index / "tiny-1.0-py3-none-any.whl").unlink()
    age(tmp_path / "cache", 5)
    assert recipe(unpinned, tmp_path / "cache").key == first
    assert "are those of 5 h ago" in caplog.text
    with pytest.raises(BadSpec, match=r"requirements\.txt:1: tiny"):
        recipe(unpinned, tmp_path / "other")


def test_no_code_of_an_index_is_built_here(index: Path, unpinned: Path, tmp_path: Path) -> None:
    """A higher version as a source archive would run its ``setup.py`` on this machine."""
    ran = tmp_path / "ran"
    with tarfile.open(index / "tiny-99.0.tar.gz", "w:gz") as archive:
        text = f"open({str(ran)!r}, 'w')\n".encode()
        entry = tarfile.TarInfo("tiny-99.0/setup.py")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))
    recipe(unpinned, tmp_path / "cache")
    assert not ran.exists()
    [note] = (tmp_path / "cache" / "resolved").iterdir()
    assert note.read_text().startswith("tiny==1.0 --hash=sha256:")
    (index / "tiny-1.0-py3-none-any.whl").unlink()
    with pytest.raises(BadSpec, match="No matching distribution"):
        recipe(unpinned, tmp_path / "other")
    assert not ran.exists()


@pytest.mark.parametrize(
    ("text", "is_allowed"),
    [
        ("tiny @ git+https://git.example/tiny", True),
        ("./tiny-1.0.tar.gz", True),
        ("https://index.example/tiny-1.0.zip#sha256=0", True),
        ("./tiny-1.0-py3-none-any.whl", False),
        ("--no-binary tiny", False),
        ("digit-utils==1.0", False),
    ],
)
def test_uv_may_build_where_the_file_itself_names_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, is_allowed: bool
) -> None:
    """By a stand-in, which shows how it is called."""
    tool = tmp_path / "uv"
    tool.write_text('#!/bin/sh\necho "$@"\n')
    tool.chmod(0o755)
    monkeypatch.setattr(package_installer, "find_uv", lambda: str(tool))
    file = tmp_path / "requirements.txt"
    given = package_installer.resolve(file, [RequirementLine(file, 1, text)], Path("python3"))
    assert "--generate-hashes" in given
    assert ("--only-binary :all:" not in given) is is_allowed


@pytest.mark.slow
def test_a_package_that_changes_after_it_was_resolved_is_refused(
    index: Path, unpinned: Path, tmp_path: Path
) -> None:
    (tmp_path / "cache").mkdir()
    (CACHE / "interpreters").mkdir(parents=True, exist_ok=True)
    (tmp_path / "cache" / "interpreters").symlink_to(CACHE / "interpreters")
    found = recipe(unpinned, tmp_path / "cache")
    with zipfile.ZipFile(index / "tiny-1.0-py3-none-any.whl", "a") as archive:
        archive.writestr("tiny_more.py", "")
    tree = tmp_path / "tree"
    tree.mkdir()
    with pytest.raises(BadSpec, match="DO NOT MATCH THE HASHES"):
        found.fill(tree, lambda _: None, frozenset())


def test_options_go_along_with_full_paths(tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    file = tmp_path / "requirements.txt"
    file.write_text("--find-links wheels\n-i https://index.example/simple\ntiny\n--pre\n")
    assert option_lines(requirement_lines(file)) == [
        f"--find-links {tmp_path}/wheels",
        "-i https://index.example/simple",
        "--pre",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("numpy\n-e .\n", r"requirements.txt:2: -e .: an editable install"),
        ("\n./package\n", r"requirements.txt:2: ./package: a directory"),
        ("-r missing.txt\n", r"cannot read .*missing.txt"),
    ],
)
def test_what_would_stay_here_is_refused_with_its_line(
    tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "package").mkdir()
    file = tmp_path / "requirements.txt"
    file.write_text(text)
    with pytest.raises(BadSpec, match=said):
        key_of(PackSource.REQUIREMENTS, file)


def test_an_installer_s_complaint_names_the_line(tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text(
        "#!/bin/sh\necho 'No matching distribution found for Scikit_Learn==9' >&2\nexit 1\n"
    )
    tool.chmod(0o755)
    file = tmp_path / "requirements.txt"
    lines = [
        RequirementLine(file, 1, "numpy"),
        RequirementLine(file, 3, "scikit-learn==9"),
    ]
    with pytest.raises(BadSpec) as refused:
        package_installer.run_installer([str(tool)], file, lines)
    assert "requirements.txt:3: scikit-learn==9" in refused.value.message
    assert "No matching distribution" in refused.value.message
    assert "numpy" not in refused.value.message


def test_a_line_of_a_pyproject_is_found_by_its_quotes(tmp_path: Path) -> None:
    line = RequirementLine(tmp_path / "pyproject.toml", 5, '"Tiny.Package>=2",')
    assert lines_named_in("Because tiny-package was not found", [line]) == [line]


def test_links_to_this_machine_are_refused_by_name(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    [site] = (venv / "lib").glob("python*/site-packages")
    (site / "mine-1.0.dist-info").mkdir()
    text = '{"url": "file:///x", "dir_info": {"editable": true}}'
    (site / "mine-1.0.dist-info" / "direct_url.json").write_text(text)
    (site / "other.pth").write_text("/home/me/other\n")
    with pytest.raises(BadSpec, match="link to this machine: mine, other"):
        key_of(PackSource.VENV, venv)
    settings = venv / "pyvenv.cfg"
    settings.write_text(settings.read_text().replace("packages = false", "packages = true"))
    with pytest.raises(BadSpec, match="uses packages of the system"):
        key_of(PackSource.VENV, venv)


def test_without_an_active_environment_there_is_none_to_pack() -> None:
    with pytest.raises(BadSpec, match="no virtual environment is active"):
        recipe_of(PackedFrom(PackSource.VENV, "active"), CACHE, {})


def test_conda_is_refused_with_what_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "environment.yml"
    file.write_text("dependencies: [numpy]\n")
    environ = {"PATH": str(tmp_path)}
    with pytest.raises(BadConfig, match=r"none of micromamba, mamba, conda on this machine"):
        recipe_of(PackedFrom(PackSource.CONDA, str(file)), CACHE, environ)
    (tmp_path / "conda").write_text("#!/bin/sh\n")
    (tmp_path / "conda").chmod(0o755)
    with pytest.raises(BadConfig, match="no conda-pack"):
        recipe_of(PackedFrom(PackSource.CONDA, str(file)), CACHE, environ)


def test_a_conda_environment_is_made_and_packed_by_its_tools(tmp_path: Path) -> None:
    """By stand-ins, which show how they are called."""
    for name, text in {
        "micromamba": 'mkdir -p "$4/bin"\ncp "$6" "$4"\n',
        "conda-pack": 'tar cf "$4" -C "$2" .\n',
    }.items():
        tool = tmp_path / name
        tool.write_text(f"#!/bin/sh\nset -e\n{text}")
        tool.chmod(0o755)
    file = tmp_path / "environment.yml"
    file.write_text("dependencies: [numpy]\n")
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    recipe = recipe_of(PackedFrom(PackSource.CONDA, str(file)), CACHE, environ)
    tree = tmp_path / "tree"
    tree.mkdir()
    recipe.fill(tree, lambda _: None, frozenset())
    assert (tree / "environment.yml").read_text() == file.read_text()


@pytest.mark.parametrize("name", ["poetry.lock", "Pipfile.lock"])
def test_locks_of_other_tools_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("")
    with pytest.raises(BadSpec, match="lock of another tool than uv"):
        key_of(PackSource.LOCK, tmp_path / name)


def test_what_only_uv_reads_is_refused_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package_installer, "find_uv", lambda: "")
    with pytest.raises(BadSpec, match="can be read by uv only") as refused:
        package_installer.resolve(tmp_path / "pylock.toml", [], Path("x"))
    assert "yarnam[environments]" in refused.value.hint
