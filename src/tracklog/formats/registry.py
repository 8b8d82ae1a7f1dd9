"""Every importer, exporter and hook, by name."""

from tracklog.formats.exporters import Exporter
from tracklog.formats.hooks import Hook
from tracklog.formats.importers import Importer
from tracklog.home.plugs import Registry

_importers: Registry[Importer] = Registry(
    "tracklog.formats.importers", Importer, group="tracklog.importers"
)
_exporters: Registry[Exporter] = Registry(
    "tracklog.formats.exporters", Exporter, group="tracklog.exporters", called="format"
)
_hooks: Registry[Hook] = Registry("tracklog.formats.hooks", Hook, group="tracklog.hooks")

importer, importers, importer_names = _importers.get, _importers.all, _importers.names
exporter, exporters, exporter_names = _exporters.get, _exporters.all, _exporters.names
hook, hooks, hook_names = _hooks.get, _hooks.all, _hooks.names
