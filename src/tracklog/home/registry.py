"""Every dialect, fold, store and index, by name or URL."""

from typing import Any

from tracklog.dialects import Dialect
from tracklog.folds import Fold
from tracklog.home.plugs import Openers, Registry
from tracklog.index.indexes import Index
from tracklog.journal.stores import Store

MACHINERY = ("checking", "documents", "recognition", "rules", "schemas")
"""The files of `dialects` that are no dialect."""

_dialects: Registry[Dialect] = Registry("tracklog.dialects", Dialect, besides=MACHINERY)
_folds: Registry[Fold[Any]] = Registry("tracklog.folds", Fold)
_stores: Openers[Store] = Openers("tracklog.journal.stores", "store", group="tracklog.stores")
_indexes: Openers[Index] = Openers("tracklog.index.indexes", "index", group="tracklog.indexes")

dialect, dialects, dialect_names = _dialects.get, _dialects.all, _dialects.names
fold, folds, fold_names = _folds.get, _folds.all, _folds.names
store, store_names = _stores.open, _stores.names
index, index_names = _indexes.open, _indexes.names
