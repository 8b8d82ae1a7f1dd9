"""`tracklog export`: write a run in a foreign format."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from tracklog.cli import _home, _names, _options, _writing


class Listing(click.Command):
    """Lists the formats of the folder in its help, when it is requested."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from tracklog.formats import registry

        with formatter.section("Formats"):
            formatter.write_dl([(each.name, each.about) for each in registry.exporters()])
        with formatter.section("Their options"):
            formatter.write_dl(
                [
                    (f"{each.name} {name}={'|'.join(option.choices) or 'TEXT'}", option.about)
                    for each in registry.exporters()
                    for name, option in each.options.items()
                ]
            )
        super().format_epilog(ctx, formatter)


@click.command(
    cls=Listing,
    epilog="""\b
Examples:
  tracklog export html agent-coder-1 -o run.html
  tracklog export jsonl agent-coder-1 -o run.jsonl      (with run.jsonl.proof.json beside it)
  tracklog export otel agent-coder-1 -O content=yes | \\
    curl -H 'Content-Type: application/json' --data-binary @- localhost:4318/v1/traces
  tracklog export agui agent-coder-1 --follow           (while it runs, until it ends)

\b
Exit code: 0 written, 1 something would be lost and --strict was given, 2 usage or I/O.""",
)
@click.argument("format", shell_complete=_names.of("exporters"))
@_home.run_argument()
@_home.read_option
@_options.loss_options
@click.option(
    "-O",
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the format, see below; may be repeated.",
)
@click.option("-f", "--follow", is_flag=True, help="Continue with new records, until the run ends.")
@click.option("--no-proof", is_flag=True, help="Do not verify the run against the journal.")
def command(
    format: str,
    run: str,
    home: Path,
    output: Path | None,
    options: tuple[str, ...],
    follow: bool,
    strict: bool,
    report: bool,
    as_json: bool,
    no_proof: bool,
) -> None:
    """Write RUN, and the runs below it where the format supports it, in FORMAT.

    Exporting twice gives the same bytes. With `jsonl` and -o, a proof is written to a second file:
    tracklog_verify.py (in the folder contracts of the package) checks it without tracklog.
    """
    from tracklog.formats import registry
    from tracklog.formats.export import export_run_now
    from tracklog.formats.live import live_of

    exporter = registry.exporter(format)
    chosen = exporter.chosen(dict(map(_pair, options)))
    if follow and (output or strict or report or as_json):
        raise click.UsageError("--follow writes to standard output, before losses are known")
    with _home.asking(home) as opened:
        if follow:
            live = live_of(opened, opened.run(run), exporter, chosen)
            _writing.put(live.follow(), None, at_once=True)
            return
        prove = exporter.proof != "none" and not no_proof
        exported = export_run_now(opened, opened.run(run), prove=prove)
        losses = exporter.losses(exported, chosen) if strict or report or as_json else None
        if strict and losses is not None and not losses.lossless:
            _writing.refuse(losses, as_json=as_json)
        _writing.put(exporter.write(exported, chosen), output)
    if exported.proof is not None and output and output.is_file() and exporter.proof == "beside":
        _writing.put(_json(exported.proof), output.with_name(output.name + ".proof.json"))
    if losses is not None and (report or as_json):
        _writing.print_losses(losses, as_json=as_json, err=output is None)


def _pair(option: str) -> tuple[str, str]:
    name, sign, value = option.partition("=")
    if not sign:
        raise click.BadParameter(f"{option!r} is not NAME=VALUE")
    return name, value


def _json(value: Any) -> Iterator[bytes]:
    import orjson

    yield orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)
