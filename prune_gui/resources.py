"""Where the files shipped with the program are."""

from pathlib import Path


def resource(*parts: str) -> Path:
    """Return the path of a shipped file, in an installed wheel as in a checkout."""
    here = Path(__file__).parent
    installed = here / "resources"
    root = installed if installed.is_dir() else here.parent / "resources"
    return root.joinpath(*parts)
