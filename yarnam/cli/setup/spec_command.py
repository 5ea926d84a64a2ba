"""``yarnam spec``: create a job spec, check it without a cluster, print its JSON Schema."""

from __future__ import annotations

import dataclasses

import click

from yarnam._light_imports import on_first_use
from yarnam.cli.options import ChoiceWithFormer, new_file_option
from yarnam.cli.rendering.console import print_document, print_json, print_line
from yarnam.client.data.output_file import write_output
from yarnam.core.frameworks.registry import FORMER, NAMES
from yarnam.errors import BadSpec

with on_first_use():
    from yarnam import spec


@click.group("spec")
def command() -> None:
    """Create and check job specs; print their JSON Schema."""


@command.command()
def schema() -> None:
    """Print the JSON Schema of a job spec, for editors."""
    print_json(spec.json_schema())


@command.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="Print the problems as JSON.")
@click.pass_context
def validate(context: click.Context, files: tuple[str, ...], as_json: bool) -> None:
    """Check job specs without a cluster and report every problem with file, line and key.

    Prints `ok` for each valid file; exits 65 if a file is invalid.
    """
    failures: dict[str, BadSpec] = {}
    for file in files:
        try:
            spec.parse_spec_file(file)
        except BadSpec as error:
            failures[file] = error
        else:
            if not as_json:
                print_line(f"{file}: ok")
    if as_json:
        findings = [
            {
                "file": file,
                "ok": file not in failures,
                "problems": [
                    dataclasses.asdict(problem)
                    for problem in (failures[file].problems if file in failures else ())
                ],
            }
            for file in files
        ]
        print_json(findings)
        if failures:
            context.exit(int(BadSpec.exit_code))
    elif len(failures) == 1:
        raise next(iter(failures.values()))
    elif failures:
        problems = tuple(problem for error in failures.values() for problem in error.problems)
        raise BadSpec("\n".join(error.message for error in failures.values()), problems=problems)


@command.command()
@click.option(
    "--framework",
    default="command",
    show_default=True,
    type=ChoiceWithFormer(NAMES, FORMER),
    help="The framework of the starter.",
)
@new_file_option
def init(framework: str, output: str | None) -> None:
    """Print a commented starter spec, or write it to a new file."""
    text = spec.template(framework, output or "job.yaml")
    if output is None:
        print_document(text)
        return
    write_output(output, text, is_new=True)
    print_line(f"Wrote {output}. Next: yarnam spec validate {output}")
