"""Paths of the files that are shipped with the program."""

from pathlib import Path


def resource(*parts: str) -> Path:
    """Return the path of a shipped file, both in an installed wheel and in a checkout."""
    package = Path(__file__).parent
    installed = package / "resources"
    root = installed if installed.is_dir() else package.parent / "resources"
    return root.joinpath(*parts)
