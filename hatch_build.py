"""What the packages hold beside the Python code: the console, the emitters and the schemas."""

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CONSOLE = "src/tracklog/console/index.html"
COPIED = ("contracts/*_emit.*", "contracts/tracklog_verify.py", "contracts/schemas/*.json")
"""Files that `tracklog emitter` prints or that other projects copy; in the wheel below `tracklog/`."""


class PackageContents(BuildHookInterface[Any]):
    """Adds the files to a wheel, and refuses a release that has no console."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before each build; an editable installation finds the files in the clone."""
        if version == "editable":
            return
        root = Path(self.root)
        if not (root / CONSOLE).is_file():
            missing = "this package has no console"
            if os.environ.get("TRACKLOG_RELEASE") == "1":
                raise SystemExit(f"{missing}, so it is no release: build it with `make dist`")
            self.app.display_warning(f"{missing}: `make setup` builds it, `make dist` packages it")
        if self.target_name == "wheel":
            for pattern in COPIED:
                for path in sorted(root.glob(pattern)):
                    name = path.relative_to(root).as_posix()
                    build_data["force_include"][str(path)] = f"tracklog/{name}"
