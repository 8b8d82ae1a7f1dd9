"""Builds the documentation as a site; no page of it loads anything from elsewhere."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUILDER = ROOT / ".venv" / "docs" / "bin" / "zensical"
SHIM = "https://unpkg.com/iframe-worker/shim"
"""What the theme loads for the search in pages that are opened as files; ours is a copy of it."""
OWN = "assets/iframe-worker.js"
_LOADED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//[^"'\s>]+|"""
    r"""<link\b[^>]*\brel=["']?(?:stylesheet|preconnect|icon)[^>]*\bhref=["']?(?:https?:)?//[^>]+"""
)


def local(site: Path) -> list[str]:
    """Replace what the theme loads from elsewhere by our copy; what is still loaded from elsewhere."""
    found = []
    for page in sorted(site.rglob("*.html")):
        depth = len(page.relative_to(site).parts) - 1
        text = page.read_text().replace(SHIM, "../" * depth + OWN)
        page.write_text(text)
        found += [f"{page.relative_to(site)}: {each}" for each in _LOADED.findall(text)]
    return found


def main() -> int:
    built = subprocess.run([BUILDER, "build", "--clean", "--strict"], cwd=ROOT, check=False)
    if built.returncode:
        return built.returncode
    site = ROOT / "site"
    outside = local(site)
    print("\n".join(outside) or f"the site is in {site}: open index.html", file=sys.stderr)
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main())
