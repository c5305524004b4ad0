"""The benchmarks use names that exist."""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "benchmarks"


def test_all_benchmarks_can_be_imported():
    names = sorted(path.stem for path in FOLDER.glob("*.py"))
    assert len(names) > 10
    command = [sys.executable, "-c", f"import {', '.join(names)}"]
    found = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
