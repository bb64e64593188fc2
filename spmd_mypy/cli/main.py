"""The command line itself: which commands and options there are, and their help."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from spmd_mypy import __version__

# What can be given as --output-format; spelled out here so that --help needs no import of mypy.
FORMATS: Final = ("text", "json", "github", "sarif", "gitlab", "junit")
_PASS_ON: Final = {"ignore_unknown_options": True, "help_option_names": ["-h", "--help"]}
_HELP: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class _Examples(click.Command):
    """A command whose help ends with examples, printed as they stand."""

    def __init__(self, *args: object, examples: str = "", **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.examples = examples

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples, one per line."""
        del ctx
        if self.examples:
            formatter.write_paragraph()
            formatter.write("Examples:\n")
            for line in self.examples.strip().splitlines():
                formatter.write(f"  {line.strip()}\n")


@click.group(context_settings=_HELP)
@click.version_option(__version__, prog_name="spmd")
def main() -> None:
    """Find wrong collectives and wrong gradients in PyTorch training code.

    The checks are a mypy plugin: plain `mypy` gives the same verdicts. This command adds the outputs that CI systems
    read, baselines, runs per configuration, and help.

    New here? Run `spmd init` in your project, then `spmd check`.
    """


@main.command(
    cls=_Examples,
    context_settings={**_HELP, **_PASS_ON},
    examples="""
    spmd check                                   what the mypy configuration names
    spmd check src/model.py --strict             files and any option of mypy's
    spmd check --output-format github            annotations in a pull request
    spmd check --output-format sarif --output-file spmd.sarif
    spmd check --configuration all               once per configuration, one report
    spmd check --baseline spmd-baseline.json     forgive what there is today
    """,
)
@click.option("--output-format", type=click.Choice(FORMATS), default="text", show_default=True, help="How to report.")
@click.option(
    "--output-file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Write the report there, and print the text as well.",
)  # fmt: skip
@click.option(
    "--configuration", "configurations", multiple=True, metavar="NAME|all",
    help="Check as this configuration of the project; may be repeated. Each has a cache of its own.",
)  # fmt: skip
@click.option(
    "--baseline", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Forgive the errors in FILE. The first run writes today's errors to it; in CI it must be there.",
)  # fmt: skip
@click.option("--update-baseline", is_flag=True, help="Write the baseline anew: without what is mended.")
@click.option(
    "--preflight/--no-preflight", default=True, help="First make sure that mypy loads the plugin and sees torch."
)
@click.argument("mypy", nargs=-1, type=click.UNPROCESSED, metavar="[MYPY ARGUMENTS]...")
def check(**given: Any) -> None:
    """Run mypy and report in the format of your choice.

    All arguments of mypy's are passed on; without any file or folder it checks what mypy's configuration names, else
    the current folder. The exit status is mypy's: 0 no error, 1 errors, 2 mypy could not do its work (a wrong option,
    a syntax error, no plugin).
    """
    from spmd_mypy.cli import check as command  # noqa: PLC0415 - `spmd --help` need not import mypy

    raise SystemExit(command.check(command.Request(**given)))


@main.command(
    cls=_Examples,
    context_settings=_HELP,
    examples="""
    spmd explain                 the list of codes
    spmd explain spmd-partial    what it says, why it is a bug, what to write
    """,
)
@click.argument("code", required=False)
def explain(code: str | None) -> None:
    """Print the page of an error code."""
    from spmd_mypy.cli import explain as command  # noqa: PLC0415

    raise SystemExit(command.run(code))


@main.command(
    cls=_Examples,
    context_settings={**_HELP, **_PASS_ON},
    examples="""
    spmd coverage src/models          the share of typed tensor expressions, file by file
    spmd coverage --axis tp           of those typed on one mesh axis
    spmd coverage --why src/model.py  every place at which a type is lost
    spmd coverage --fail-under 90     exit status 1 below 90 percent
    """,
)
@click.option("--fail-under", type=click.FloatRange(0, 100), metavar="PERCENT", help="Fail below this share.")
@click.option("--axis", metavar="NAME", help="Count what is typed on this mesh axis; otherwise on any.")
@click.option("--why", is_flag=True, help="List every cause; otherwise the most frequent of each file.")
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.argument("mypy", nargs=-1, type=click.UNPROCESSED, metavar="[MYPY ARGUMENTS]...")
def coverage(fail_under: float | None, axis: str | None, why: bool, output_format: str, mypy: tuple[str, ...]) -> None:
    """Say how much of each file is really checked.

    Counts the expressions that hold a tensor, those whose type is known on a mesh axis, and says where the types of
    the others are lost.
    """
    from spmd_mypy.cli.coverage import command  # noqa: PLC0415

    raise SystemExit(command.run(mypy, fail_under=fail_under, axis=axis, why=why, as_json=output_format == "json"))


@main.command(
    cls=_Examples,
    context_settings={**_HELP, **_PASS_ON},
    examples="""
    spmd doctor                            in the folder in which mypy is run
    spmd doctor --config-file ci/mypy.ini  with the arguments that mypy is given
    spmd doctor --output-format json       for a report of a bug
    """,
)
@click.option("--probe/--no-probe", default=True, help="Also run mypy over a few lines.")
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.argument("mypy", nargs=-1, type=click.UNPROCESSED, metavar="[MYPY ARGUMENTS]...")
def doctor(probe: bool, output_format: str, mypy: tuple[str, ...]) -> None:
    """Look for what keeps the plugin from working.

    Another mypy on the path, a configuration that cannot be read, a plugin that is not loaded, names in the
    configuration that name nothing, a torch that mypy does not see, packages that replace torch's types, old caches
    and daemons, unsupported versions. Run it in the folder and the environment in which mypy runs.
    The exit status is 1 where something is wrong.
    """
    from spmd_mypy.cli import doctor as command  # noqa: PLC0415

    raise SystemExit(command.run(mypy, as_json=output_format == "json", probe=probe))


@main.command(
    cls=_Examples,
    context_settings=_HELP,
    examples="""
    spmd init                       in the folder in which mypy is run
    spmd init --axes dp,tp --dry-run
    """,
)
@click.option(
    "--axes",
    default="",
    metavar="NAMES",
    help="The mesh axes, such as dp,tp. Default: those that are there.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be written, and write nothing.")
def init(axes: str, dry_run: bool) -> None:
    """Write the plugin into the configuration that mypy reads.

    The file keeps its comments and its order. Nothing that is set already is changed.
    """
    from spmd_mypy.cli import init as command  # noqa: PLC0415

    raise SystemExit(command.run(Path.cwd(), axes=axes, dry_run=dry_run))


if __name__ == "__main__":
    main()
