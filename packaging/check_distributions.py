"""Check a built wheel and sdist: ``python packaging/check_distributions.py dist``.

The wheel must contain exactly the package, the shipped resources and its metadata; the sdist must
contain everything that the wheel is built from and the tests. Prints every problem, and then exits
with 1.
"""

from __future__ import annotations

import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
METADATA: Final = frozenset(
    [
        *("METADATA", "RECORD", "WHEEL", "entry_points.txt"),
        *("licenses/LICENSE", "licenses/resources/demo/digits.npz.license"),
    ]
)
SDIST_FOLDERS: Final = ("prune_gui", "resources", "tests", "packaging", "docs")
SDIST_FILES: Final = ("CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml")
UNWANTED: Final = ("__pycache__", ".pyc", ".pyo", ".so", ".nbi", ".nbc", ".egg-info")


def files_of(folder: str, root: Path = ROOT) -> set[str]:
    """Return the paths of the files below a folder of the checkout, relative to the checkout."""
    paths = (path for path in (root / folder).rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix() for path in paths if not _is_unwanted(str(path))}


def wheel_problems(path: Path, version: str, root: Path = ROOT) -> Iterator[str]:
    """Yield what is wrong with a wheel."""
    with zipfile.ZipFile(path) as wheel:
        names = {name for name in wheel.namelist() if not name.endswith("/")}
        prefix = f"prune_gui-{version}.dist-info/"
        metadata = wheel.read(f"{prefix}METADATA") if f"{prefix}METADATA" in names else b""
        entry_points = f"{prefix}entry_points.txt"
        scripts = wheel.read(entry_points).decode() if entry_points in names else ""
    resources = {f"prune_gui/{name}" for name in files_of("resources", root)}
    pictures = {Path(name).name for name in files_of("docs/pictures", root)}
    resources |= {f"prune_gui/resources/guide/pictures/{name}" for name in pictures}
    expected = files_of("prune_gui", root) | resources | {prefix + name for name in METADATA}
    yield from (f"{path.name} lacks {name}" for name in sorted(expected - names))
    yield from (f"{path.name} should not contain {name}" for name in sorted(names - expected))
    if "prune-gui = prune_gui.cli:main" not in scripts:
        yield f"{path.name} has no program prune-gui"
    if message_from_bytes(metadata)["Version"] != version:
        yield f"{path.name} is not of version {version}"


def sdist_problems(path: Path, version: str, root: Path = ROOT) -> Iterator[str]:
    """Yield what is wrong with a source distribution."""
    with tarfile.open(path) as sdist:
        names = {member.name for member in sdist.getmembers() if not member.isdir()}
    prefix = f"prune_gui-{version}/"
    if strange := sorted(name for name in names if not name.startswith(prefix)):
        yield f"{path.name} has files outside of {prefix}: {strange[0]}"
    inside = {name.removeprefix(prefix) for name in names}
    expected = set(SDIST_FILES).union(*(files_of(folder, root) for folder in SDIST_FOLDERS))
    yield from (f"{path.name} lacks {name}" for name in sorted(expected - inside))
    for name in sorted(filter(_is_unwanted, inside)):
        yield f"{path.name} should not contain {name}"


def version_of(root: Path = ROOT) -> str:
    """Return the version, which stands in pyproject.toml only."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def problems(folder: Path) -> Iterator[str]:
    """Yield what is wrong with the distributions in a folder, and with the texts on the version."""
    version = version_of()
    for pattern, check in (("*.whl", wheel_problems), ("*.tar.gz", sdist_problems)):
        found = sorted(folder.glob(pattern))
        if len(found) != 1:
            yield f"{folder} has {len(found)} files {pattern}, not one"
        for path in found:
            yield from check(path, version)
    if f"\n## {version}" not in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"):
        yield f"CHANGELOG.md has no section {version}"


def _is_unwanted(path: str) -> bool:
    return any(part in path for part in UNWANTED)


if __name__ == "__main__":
    found = list(problems(Path(sys.argv[1])))
    print("\n".join(found) or "The distributions are complete.")
    sys.exit(bool(found))
