"""Build the bundle: ``python packaging/bundle.py``.

The bundle is the program with Python and all libraries: a folder, and on Debian a package of it. It
is built in a virtual environment of its own, with the versions of constraints.txt. The result is in
`build/bundle/`: the folder `prune-gui`, and `prune-gui_VERSION_ARCHITECTURE.deb`.

pip must be set up to find a CPU build of torch, unless the bundle is to contain the CUDA build.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

from bundle_files.contents import STRIPPED

ROOT: Final = Path(__file__).parents[1]
EXTRAS: Final = "keras,search,tokens"
"""Optional packages that the bundle contains."""


def main() -> None:
    """Build the bundle in the folder that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "bundle")
    parser.add_argument("--no-deb", action="store_true", help="do not build a Debian package")
    arguments = parser.parse_args()
    folder = arguments.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    python = prepare_environment(folder / "environment")
    built = build_folder(python, folder)
    run(python, ROOT / "packaging" / "bundle_files" / "licences.py", built / "LICENCES.txt")
    print(f"{built}: {size_of(built) / 1e6:,.0f} MB")
    if shutil.which("dpkg-deb") and not arguments.no_deb:
        run(python, ROOT / "packaging" / "bundle_files" / "deb.py", built, folder)


def prepare_environment(environment: Path) -> Path:
    """Install the program and PyInstaller in an environment, and return its interpreter."""
    scripts = environment / ("Scripts" if sys.platform == "win32" else "bin")
    python = scripts / ("python.exe" if sys.platform == "win32" else "python")
    if not python.exists():
        venv.create(environment, with_pip=True)
    constraints = ROOT / "packaging" / "constraints.txt"
    install = [python, "-m", "pip", "install", "--quiet", "-c", constraints]
    run(*install, f"{ROOT}[{EXTRAS},bundle]")
    run(*install, "--force-reinstall", "--no-deps", ROOT)  # the checkout may have changed
    return python


def build_folder(python: Path, folder: Path) -> Path:
    """Build the folder with PyInstaller, and return it."""
    spec = ROOT / "packaging" / "bundle_files" / "prune-gui.spec"
    work, built = folder / "work", folder / "prune-gui"
    work.mkdir(exist_ok=True)
    run(
        python, "-m", "PyInstaller", "--noconfirm", "--log-level", "WARN",
        "--distpath", folder, "--workpath", work, spec,
        cwd=folder,
    )  # fmt: skip
    libraries = built / "_internal"
    if sys.platform == "linux" and (strip := shutil.which("strip")):
        for pattern in STRIPPED:
            for library in libraries.glob(pattern):
                run(strip, "--strip-unneeded", library)
    # The sources of the program are files. Without their bytecode each start would compile them.
    mode = ["--invalidation-mode", "unchecked-hash"]
    run(python, "-m", "compileall", "-q", *mode, libraries / "prune_gui")
    return built


def size_of(folder: Path) -> int:
    """Return the size of all files below a folder in bytes."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


def run(*command: str | os.PathLike[str], cwd: Path | None = None) -> None:
    """Run a command; end the program if it fails."""
    done = subprocess.run(command, cwd=cwd, check=False)
    if done.returncode:
        sys.exit(f"{Path(command[0]).name} failed: {' '.join(map(str, command[1:]))}")


if __name__ == "__main__":
    main()
