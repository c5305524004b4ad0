"""Paths of the files that are shipped with the program."""

from pathlib import Path


def resource(*parts: str) -> Path:
    """Return the path of a shipped file, both in an installed wheel and in a checkout."""
    package = Path(__file__).parent
    installed = package / "resources"
    root = installed if installed.is_dir() else package.parent / "resources"
    return root.joinpath(*parts)


def is_shipped(path: Path) -> bool:
    """Return whether a file is shipped with the program."""
    return path.absolute().is_relative_to(resource().absolute())
