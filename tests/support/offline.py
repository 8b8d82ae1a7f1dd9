"""The verifier that people copy, loaded as a module."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

SCRIPT = Path(__file__).parents[2] / "contracts" / "tracklog_verify.py"


def load_script() -> ModuleType:
    spec = spec_from_file_location("tracklog_verify", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
