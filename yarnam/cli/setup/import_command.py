"""``yarnam import``: a job description of another system as a spec."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from yarnam._light_imports import on_first_use
from yarnam.cli.options import ChoiceWithFormer, new_file_option
from yarnam.cli.rendering.console import print_document, print_json, print_line, print_note
from yarnam.client.data.output_file import write_output
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


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
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
@click.option("--shell-env", default="", help="TonY: variables, as in 'A=1 B=2'.")
@click.option("--json", "as_json", is_flag=True, help="Print spec and keys as JSON.")
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="TonY: overrides the file.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    file: Path,
    kind: str | None,
    output: str | None,
    run: bool,
    as_json: bool,
    conf: tuple[str, ...],
    **arguments: str,
) -> int:
    """Convert a job of another system to a spec.

    FILE is a tony.xml or a job of OpenPAI (protocol 2). The head of the spec lists the keys that it
    does not have, or has otherwise, each with the reason. Unknown keys are refused.
    """
    if as_json and output is not None:
        raise UsageError("--json prints, --output writes", hint="Give one of them.")
    if run and output is None:
        raise UsageError("--run needs --output", hint="The spec that is submitted is kept there.")
    conversion = _converted(file, kind or _kind(file), conf, arguments)
    # Whoever submits it has these variables.
    environ = dict.fromkeys(conversion.spec.get("env", ()), "")
    spec.parse_spec_dict(conversion.spec, check_paths=False, environ=environ)
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


def _converted(
    file: Path, kind: str, conf: tuple[str, ...], arguments: Mapping[str, str]
) -> Conversion:
    if kind != "tony":
        given = [name for name, value in {"conf": conf, **arguments}.items() if value]
        if given:
            raise UsageError(f"--{given[0].replace('_', '-')} is for jobs of TonY alone")
    if kind == "tony":
        try:
            properties = configuration.load(file.parent, files=(file.name,))
        except hdfs_errors.BadConfig as error:
            raise BadSpec(str(error)) from error
        for one in conf:
            name, sign, value = one.partition("=")
            if not sign:
                raise UsageError(f"--conf {one} is no KEY=VALUE")
            properties[name] = value
        return tony.convert(properties, tony.Arguments(**arguments), str(file))
    return openpai.convert(_document(file), str(file))


def _kind(file: Path) -> str:
    text = _read(file)
    if text.lstrip().startswith("<"):
        return "tony"
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
        if file.stat().st_size > MAX_BYTES:
            raise BadSpec(f"{file} has more than {MAX_BYTES} bytes: no job description")
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadSpec(f"cannot read {file}: {error}") from error


def _text(file: Path, conversion: Conversion) -> str:
    lines = [f"# Converted from {file.name}."]
    if conversion.dropped:
        lines += [
            "# Not converted, or not to the same:",
            *(f"#   {one.key}: {one.why}" for one in conversion.dropped),
        ]
    return "\n".join([*lines, yaml.safe_dump(conversion.spec, sort_keys=False, width=100)])
