"""`tracklog mcp`: an MCP server on standard input and output, for an agent that starts it."""

from pathlib import Path

import click

from tracklog.cli import _home


@click.command(
    epilog="""\b
Examples:
  claude mcp add tracklog -- tracklog mcp
  claude mcp add tracklog -- tracklog mcp --operate
  tracklog serve --mcp read        (over HTTP, at http://127.0.0.1:4318/mcp)

\b
It needs `pip install 'tracklog[mcp]'`. Its tools: runs, show, story, why, search, costs,
series, findings, diff. No tool can answer an agent, or mark, erase or prune anything.""",
)
@_home.read_option
@click.option("--operate", is_flag=True, help="Also offer tools that ask a person, by the inbox.")
def command(home: Path, operate: bool) -> None:
    """Let an agent ask questions about the journal, by the Model Context Protocol."""
    import asyncio

    from tracklog.collector.mcp.server import make_server, reading

    with _home.opened(home) if operate else _home.reading(home) as read:
        server = make_server(reading(read), operate=operate, by=_home.user_name())
        asyncio.run(server.run_stdio_async())
