"""Every importer and exporter, by name."""

from tracklog.formats.exporters import Exporter
from tracklog.formats.importers import Importer
from tracklog.home.plugs import Registry

_importers: Registry[Importer] = Registry(
    "tracklog.formats.importers", Importer, group="tracklog.importers"
)
_exporters: Registry[Exporter] = Registry(
    "tracklog.formats.exporters", Exporter, group="tracklog.exporters", called="format"
)

importer, importers, importer_names = _importers.get, _importers.all, _importers.names
exporter, exporters, exporter_names = _exporters.get, _exporters.all, _exporters.names
