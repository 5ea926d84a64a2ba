"""``yarnam spec``: the job spec's schema, a check without a cluster, a starter."""

from __future__ import annotations

import click


@click.group("spec")
def command() -> None:
    """Check and begin job specs; print their JSON Schema."""


@command.command()
def schema() -> None:
    """Print the JSON Schema of a spec, for editors."""
    import json

    from yarnam.spec import json_schema

    click.echo(json.dumps(json_schema(), indent=2))


@command.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.pass_context
def validate(context: click.Context, files: tuple[str, ...], as_json: bool) -> None:
    """Check specs without a cluster: every problem with its file, line and key.

    Prints `ok` for each good file; exits 65 when one is not.
    """
    import dataclasses
    import json

    from yarnam.errors import BadSpec
    from yarnam.spec import parse_spec_file

    failures: dict[str, BadSpec] = {}
    for file in files:
        try:
            parse_spec_file(file)
        except BadSpec as error:
            failures[file] = error
        else:
            if not as_json:
                click.echo(f"{file}: ok")
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
        click.echo(json.dumps(findings, indent=2))
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
    type=click.Choice(["command", "jax", "pytorch", "tensorflow"]),
    help="What the starter trains with.",
)
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Write to this file.")
def init(framework: str, output: str | None) -> None:
    """Print a commented starter spec, or write it to a file (never over an existing one)."""
    from pathlib import Path

    from yarnam.errors import UsageError
    from yarnam.spec import template

    text = template(framework, output or "job.yaml")
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        with Path(output).open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise UsageError(f"{output} exists already", hint="Choose another name.") from None
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror}") from error
    click.echo(f"wrote {output}; next: yarnam spec validate {output}")
