"""``yarnam import``: a job description of another system as a spec."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from yarnam._light_imports import on_first_use
from yarnam.cli.options import ChoiceWithFormer, new_file_option
from yarnam.cli.rendering.console import print_document, print_json, print_line, print_note
from yarnam.client.data.output_file import write_output
from yarnam.core.model.printable import printable
from yarnam.errors import BadSpec, UsageError

with on_first_use():
    import yaml

    from hdfs_utils import errors as hdfs_errors
    from hdfs_utils.config import configuration
    from yarnam import spec
    from yarnam.cli.jobs import submit_command
    from yarnam.spec import yaml_tree
    from yarnam.spec.importers import openpai, tony

if TYPE_CHECKING:
    from yarnam.spec.importers.conversion import Conversion

FORMATS = ("tony", "openpai")
FORMER = {
    "hbox": "Start from `yarnam spec init`: --launch-cmd is `command`, --worker-num and --ps-num "
    "are `tasks` of roles, --input and --output are `data`.",
    "submarine": "Start from `yarnam spec init`: launch_cmd is `command`, replicas are `tasks` "
    "of roles, input_path and saved_model_path are `data`.",
    "dask-yarn": "Start from `yarnam spec init --framework dask`: it runs a scheduler, workers and "
    "your program as one job.",
}
"""Systems whose jobs were converted once, and how to write a spec for them."""
MAX_BYTES = 1 << 20
BEFORE_XML = b"\xef\xbb\xbf\xfe\xff\x00 \t\r\n"
"""Byte order marks of UTF-8 and UTF-16, and blanks, before a document's first character."""


class _AsTonyWritesThem(click.Command):
    """Takes options in the spelling of TonY's client too: ``-src_dir`` is ``--src-dir``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        known = {word for option in self.params for word in option.opts}
        return super().parse_args(ctx, [_our_spelling(word, known) for word in args])


def _our_spelling(word: str, known: Collection[str]) -> str:
    name, sign, value = word.partition("=")
    ours = f"--{name.lstrip('-').replace('_', '-')}"
    is_option = name.startswith("-") and name not in known and ours in known
    return f"{ours}{sign}{value}" if is_option else word


@click.command("import", cls=_AsTonyWritesThem)
@click.argument(
    "file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "--from",
    "kind",
    type=ChoiceWithFormer(FORMATS, FORMER),
    help="The system that the file is for. [default: by its content]",
)
@new_file_option
@click.option("--run", is_flag=True, help="Submit what was written; needs --output.")
@click.option("--executes", default="", help="TonY: what each process runs.")
@click.option("--src-dir", default="", help="TonY: the directory with the code.")
@click.option("--task-params", default="", help="TonY: arguments of the program.")
@click.option("--python-venv", default="", help="TonY: the packed environment.")
@click.option("--python-binary-path", default="", help="TonY: the interpreter.")
@click.option("--shell-env", multiple=True, metavar="NAME=VALUE", help="TonY: a variable.")
@click.option("--container-env", multiple=True, metavar="NAME=VALUE", help="TonY: a variable.")
@click.option("--hdfs-classpath", default="", help="TonY: noted in the spec's head.")
@click.option("--debug", is_flag=True, expose_value=False, help="TonY: has no effect.")
@click.option("--sidecar-tensorboard-log-dir", default="", help="TonY: noted in the spec's head.")
@click.option("--json", "as_json", is_flag=True, help="Print spec and keys as JSON.")
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="TonY: overrides the file.")
@click.option(
    "--conf-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="TonY: the file, in place of FILE.",
)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    file: Path | None,
    kind: str | None,
    output: str | None,
    run: bool,
    as_json: bool,
    conf: tuple[str, ...],
    conf_file: Path | None,
    **arguments: Any,
) -> int:
    """Convert a job of another system to a spec.

    FILE is a tony.xml or a job of OpenPAI (protocol 2). The head of the spec lists the keys that it
    does not have, or has otherwise, each with the reason. Unknown keys are refused. Options of
    TonY's client can be written as there (-src_dir).
    """
    if (file is None) == (conf_file is None):
        raise UsageError("needs exactly one of FILE and --conf-file")
    file = file or conf_file
    assert file is not None
    if as_json and output is not None:
        raise UsageError("--json prints, --output writes", hint="Give one of them.")
    if run and output is None:
        raise UsageError("--run needs --output", hint="The spec that is submitted is kept there.")
    conversion = _converted(file, kind or _kind(file), conf, arguments)
    # Whoever submits it has these variables.
    environ = dict.fromkeys(conversion.spec.get("env", ()), "")
    spec.parse_spec_dict(conversion.spec, check_paths=False, environ=environ)
    if output is not None:
        _make_relative_to(Path(output).parent, conversion.spec)
    if as_json:
        print_json(dataclasses.asdict(conversion))
        return 0
    text = _text(file, conversion)
    if conversion.dropped:
        number = len(conversion.dropped)
        keys = "1 key" if number == 1 else f"{number} keys"
        print_note(f"{keys} cannot be converted as they are: the head of the spec says why")
    if output is None:
        print_document(text)
        return 0
    write_output(output, text, is_new=True)
    print_line(f"Wrote {output}. Next: yarnam plan {output}")
    if not run:
        return 0
    # With this command's context, from which it has the client.
    submit = submit_command.command
    with submit.make_context("submit", [output, "--detach"], parent=ctx) as context:
        return int(submit.invoke(context) or 0)


def _make_relative_to(folder: Path, made: dict[str, Any]) -> None:
    """Local paths of a command line are relative to where it runs, those of a spec to its file."""

    def moved(path: str) -> str:
        is_local = "://" not in path and not path.startswith("/")
        return os.path.relpath(path, folder) if is_local and path != "" else path

    if isinstance(made.get("code"), str):
        made["code"] = moved(made["code"])
    for shipped in made.get("files", ()):
        name = Path(shipped["source"]).name
        shipped["source"] = moved(shipped["source"])
        if Path(shipped["source"]).name != name:
            shipped.setdefault("name", name)
    if "archive" in (environment := made.get("environment", {})):
        environment["archive"] = moved(environment["archive"])


def _converted(
    file: Path, kind: str, conf: tuple[str, ...], arguments: Mapping[str, Any]
) -> Conversion:
    if kind != "tony":
        given = [name for name, value in {"conf": conf, **arguments}.items() if value]
        if given:
            raise UsageError(f"--{given[0].replace('_', '-')} is for jobs of TonY alone")
        return openpai.convert(_document(file), str(file))
    _check_size(file)
    try:
        properties = configuration.load(
            file.parent, _overrides(file, conf), (file.name,), is_foreign=True
        )
    except hdfs_errors.BadConfig as error:
        raise BadSpec(str(error)) from error
    return tony.convert(properties, tony.Arguments(**arguments), str(file))


def _overrides(file: Path, conf: tuple[str, ...]) -> dict[str, str]:
    """The properties of ``--conf``. As TonY's client, they are added to keys of several values."""
    before = {one.name: one.value for one in configuration.read_properties(file, is_foreign=True)}
    found: dict[str, str] = {}
    for one in conf:
        name, sign, value = one.partition("=")
        if not sign:
            raise UsageError(f"--conf {one} is not KEY=VALUE")
        old = found.get(name) or before.get(name)
        found[name] = f"{old},{value}" if old and name in tony.MULTI_VALUED else value
    return found


def _kind(file: Path) -> str:
    if _bytes(file).lstrip(BEFORE_XML).startswith(b"<"):
        return "tony"
    text = _read(file)
    if "hbox-submit" in text or "xl-submit" in text:
        raise _former(file, "hbox")
    document = _document(file)
    if "protocolVersion" in document:
        return "openpai"
    if "roles" in document:
        raise _former(file, "submarine")
    if "yarn" in document or "worker" in document:
        raise _former(file, "dask-yarn")
    raise UsageError(
        f"{file}: a job of an unknown system", hint=f"--from takes {', '.join(FORMATS)}."
    )


def _former(file: Path, kind: str) -> UsageError:
    return UsageError(f"{file}: jobs of {kind} are not supported any more", hint=FORMER[kind])


def _document(file: Path) -> dict[str, Any]:
    document = yaml_tree.plain_document(_read(file), str(file))
    if not isinstance(document, dict):
        raise BadSpec(f"{file} is not a mapping")
    return document


def _read(file: Path) -> str:
    try:
        return _bytes(file).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadSpec(f"cannot read {file}: {error}") from error


def _bytes(file: Path) -> bytes:
    _check_size(file)
    try:
        return file.read_bytes()
    except OSError as error:
        raise BadSpec(f"cannot read {file}: {error}") from error


def _check_size(file: Path) -> None:
    if file.stat().st_size > MAX_BYTES:
        raise BadSpec(f"{file} has more than {MAX_BYTES} bytes: not a job description")


def _text(file: Path, conversion: Conversion) -> str:
    """Names and reasons are text of others: in a comment nothing of them may begin a line."""
    lines = [f"# Converted from {printable(file.name)}."]
    if conversion.dropped:
        lines += [
            "# Not converted, or not to the same:",
            *(f"#   {printable(one.key)}: {printable(one.why)}" for one in conversion.dropped),
        ]
    return "\n".join([*lines, yaml.safe_dump(conversion.spec, sort_keys=False, width=100)])
