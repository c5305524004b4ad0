"""What belongs to the program beside its package: the wheel and sdist, and the benchmarks."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest
from check_distributions import METADATA, SDIST_FILES, sdist_problems, wheel_problems
from python_process import run_python

INFO = "prune_gui-1.0.dist-info"
PICTURE = "prune_gui/resources/guide/pictures/c.png"
CONTENTS = {
    f"{INFO}/METADATA": "Metadata-Version: 2.4\nName: prune-gui\nVersion: 1.0\n",
    f"{INFO}/entry_points.txt": "[console_scripts]\nprune-gui = prune_gui.cli:main\n",
}


@pytest.fixture
def checkout(tmp_path):
    sources = ("prune_gui/a.py", "resources/icons/b.svg", "docs/pictures/c.png")
    for name in (*sources, "tests/test_a.py", *SDIST_FILES):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "prune_gui" / "__pycache__").mkdir()
    (tmp_path / "prune_gui" / "__pycache__" / "a.pyc").write_text("")
    return tmp_path


@pytest.fixture
def wheel(checkout):
    """Return a function that checks a wheel with these files besides, or without them."""

    def check(more=(), without=(), version="1.0"):
        names = {"prune_gui/a.py", "prune_gui/resources/icons/b.svg", PICTURE}
        names |= {f"{INFO}/{name}" for name in METADATA}
        path = checkout / "a.whl"
        with zipfile.ZipFile(path, "w") as file:
            for name in sorted(names.union(more).difference(without)):
                file.writestr(name, CONTENTS.get(name, ""))
        return list(wheel_problems(path, version, checkout))

    return check


def test_what_a_wheel_lacks_and_what_does_not_belong_into_it_is_found(wheel):
    assert wheel() == []
    for name in ("prune_gui/resources/icons/b.svg", PICTURE, f"{INFO}/licenses/LICENSE"):
        assert wheel(without=[name]) == [f"a.whl lacks {name}"]
    for name in ("tests/test_a.py", "prune_gui/__pycache__/a.pyc"):
        assert wheel(more=[name]) == [f"a.whl should not contain {name}"]
    assert "a.whl has no program prune-gui" in wheel(without=[f"{INFO}/entry_points.txt"])


def test_an_sdist_must_have_the_tests_and_no_bytecode(checkout):
    path = checkout / "a.tar.gz"
    with tarfile.open(path, "w:gz") as file:
        for name in ("prune_gui/a.py", "prune_gui/a.pyc", "resources/icons/b.svg", *SDIST_FILES):
            member = tarfile.TarInfo(f"prune_gui-1.0/{name}")
            file.addfile(member, io.BytesIO())
    assert list(sdist_problems(path, "1.0", checkout)) == [
        "a.tar.gz lacks docs/pictures/c.png",
        "a.tar.gz lacks tests/test_a.py",
        "a.tar.gz should not contain prune_gui/a.pyc",
    ]


FOLDER = Path(__file__).parents[1] / "benchmarks"


def test_all_benchmarks_can_be_imported():
    names = sorted(path.stem for path in FOLDER.glob("*.py"))
    assert len(names) > 10
    run_python(f"import {', '.join(names)}", cwd=FOLDER)
