"""The benchmarks use names that exist."""

from pathlib import Path

from python_process import run_python

FOLDER = Path(__file__).parents[1] / "benchmarks"


def test_all_benchmarks_can_be_imported():
    names = sorted(path.stem for path in FOLDER.glob("*.py"))
    assert len(names) > 10
    run_python(f"import {', '.join(names)}", cwd=FOLDER)
