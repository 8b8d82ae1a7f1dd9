"""`tracklog demo`: a demo fleet."""

import shlex
from pathlib import Path

import click

from tracklog.cli import _home, _options


@click.command(
    epilog="""\b
Examples:
  tracklog demo                 # and look at http://127.0.0.1:4318
  tracklog demo --port 4400
  tracklog runs --demo          # in another terminal, while it runs or afterwards
  tracklog demo --once && tracklog runs --demo
  tracklog demo --remove""",
)
@click.option(
    "--home",
    default=_home.DEMO_HOME,
    show_default=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    callback=lambda _context, _option, path: _home.expanded(path),
    help="The folder of the demo; never your own home.",
)
@_options.listen_options(4318)
@click.option(
    "--once", is_flag=True, help="Write the lines of the last day and exit; serve nothing."
)
@click.option("--remove", is_flag=True, help="Remove the demo.")
@click.option("--force", is_flag=True, help="Remove it even if it has other runs.")
def command(home: Path, host: str, port: int, once: bool, remove: bool, force: bool) -> None:
    """Show a demo until Ctrl-C: invented agents, recorded in a separate home."""
    import time

    from tracklog import demo

    if remove:
        gone = demo.remove(home, force=force)
        click.echo(f"the demo in {home} is gone" if gone else f"there is no demo in {home}")
        return
    if force:
        demo.remove(home, force=True)
    if once:
        with demo.Demo(home) as played:
            count = played.make(time.time())
        click.echo(f"a demo of {count:,} lines is in {home}; look at it: {_look(home)}")
        return
    _show(home, host, port)


def _look(home: Path) -> str:
    """The commands that show this demo."""
    option = _option(home) or " --demo"
    return ", ".join(f"`tracklog {verb}{option}`" for verb in ("runs", "inbox", "top"))


def _option(home: Path) -> str:
    """The option that names this home; nothing for the default."""
    usual = home == _home.expanded(Path(_home.DEMO_HOME))
    return "" if usual else f" --home {shlex.quote(str(home))}"


def _show(home: Path, host: str, port: int) -> None:
    import threading
    import time

    from tracklog import demo
    from tracklog.cli import serve
    from tracklog.collector import server
    from tracklog.collector.app import Collector
    from tracklog.home.home import Home
    from tracklog.web import guard

    token = serve.token_for(host)
    stop = threading.Event()
    with server.listen(host, port) as bound, demo.Demo(home) as played:
        played.make(time.time())
        speaker = threading.Thread(target=played.play, args=(stop,), name="demo")

        def ready() -> None:
            click.echo(f"a demo with invented data is at {serve.url_of(bound)}; its home is {home}")
            click.echo(f"in another terminal: {_look(home)}")
            click.echo(
                "it refuses events from outside, but you may answer its questions; Ctrl-C stops it, "
                f"`tracklog serve` records for real, `tracklog demo --remove{_option(home)}` deletes it"
            )
            speaker.start()

        collector = Collector(Home(home, durability="os"), guard=guard.Guard(token, (host,)))
        try:
            server.serve(collector, bound, ready)
        finally:
            stop.set()
            speaker.join()
