"""Completion of the names of plug-ins in a shell."""

from collections.abc import Callable

import click

Completing = Callable[[click.Context, click.Parameter, str], list[str]]


def of(folder: str) -> Completing:
    """The names of a folder's plug-ins that begin with the typed text."""

    def names(_context: click.Context, _option: click.Parameter, begun: str) -> list[str]:
        from tracklog.formats import registry as formats
        from tracklog.home import registry

        plugs = getattr(registry, folder, None) or getattr(formats, folder)
        return [each.name for each in plugs() if each.name.startswith(begun)]

    return names


def schemas(_context: click.Context, _option: click.Parameter, begun: str) -> list[str]:
    """The same for schemas."""
    from tracklog.dialects import schemas
    from tracklog.home import registry

    return sorted(name for name in schemas.named(registry.dialects()) if name.startswith(begun))
