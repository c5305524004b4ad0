"""Print the test accuracy of the demo network or of pruned versions of it.

Usage: ``python resources/demo/evaluate.py FILE [FILE...]``. Each file is the original checkpoint or
an export of the form finalized or reparametrized (``X_orig`` and ``X_mask``).
"""

from __future__ import annotations

import sys
from pathlib import Path

from model import accuracy, digits, load


def main(paths: list[str]) -> None:
    """Print a line for each file."""
    if not paths:
        sys.exit("usage: evaluate.py FILE [FILE...]")
    _, test = digits()
    for path in paths:
        print(f"{accuracy(load(Path(path)), test):.4f}  {path}")


if __name__ == "__main__":
    main(sys.argv[1:])
