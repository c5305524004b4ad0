"""Build a Debian package of the bundle: ``python deb.py BUNDLE OUT_FOLDER``.

Run it with the interpreter of the environment that the bundle is built from. The program goes to
`/opt/prune-gui`, with a link in `/usr/bin`; menu entry, metainfo, file types and icons to
`/usr/share`. Debian's triggers renew the caches of the desktop. Needs `dpkg-deb`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from prune_gui.gui.desktop import desktop_files
from prune_gui.recipe.recipe import own_version

PROGRAM: Final = Path("opt/prune-gui/prune-gui")
DEPENDS: Final = "libc6 (>= 2.28), libegl1, libfontconfig1, libgl1, libxkbcommon-x11-0"
"""What the bundle leaves to the system: the C library, drivers of the display, fonts."""
CONTROL: Final = """\
Package: prune-gui
Version: {version}
Architecture: {architecture}
Maintainer: Prune GUI developers <maintainers@prunegui.invalid>
Installed-Size: {kibibytes}
Depends: {depends}
Section: science
Priority: optional
Description: prune neural networks by point and click
 Prune GUI opens a checkpoint of a neural network, previews exactly which
 weights are pruned, and saves a file that other programs load. The package
 contains Python and all libraries.
"""


def main(bundle: Path, folder: Path) -> None:
    """Build the package, and print its path and size."""
    root = folder / "deb"
    shutil.rmtree(root, ignore_errors=True)
    _make_folder(root)
    _link_tree(bundle, root / PROGRAM.parent)
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/prune-gui").symlink_to(f"/{PROGRAM}")
    for path, content in desktop_files(["/usr/bin/prune-gui"]).items():
        _write(root / "usr/share" / path, content)
    shutil.copy(bundle / "LICENCES.txt", _parent_of(root / "usr/share/doc/prune-gui/copyright"))
    kibibytes = sum(path.lstat().st_size for path in root.rglob("*") if not path.is_dir()) // 1024
    architecture = _output("dpkg", "--print-architecture")
    control = CONTROL.format(
        version=own_version(), architecture=architecture, kibibytes=kibibytes, depends=DEPENDS
    )
    _write(root / "DEBIAN/control", control.encode())
    _make_readable(root)
    package = folder / f"prune-gui_{own_version()}_{architecture}.deb"
    _output("dpkg-deb", "--root-owner-group", "-Zxz", "--threads-max=2", "--build", root, package)
    shutil.rmtree(root)
    print(f"{package}: {package.stat().st_size / 1e6:,.0f} MB")


def _link_tree(source: Path, target: Path) -> None:
    """Copy a folder by hard links where the file system has them."""

    def link(one: str, other: str) -> None:
        try:
            os.link(one, other)
        except OSError:
            shutil.copy2(one, other)

    shutil.copytree(source, target, symlinks=True, copy_function=link)


def _make_folder(path: Path) -> None:
    path.mkdir(parents=True)
    path.chmod(0o755)


def _make_readable(root: Path) -> None:
    """Let every user read the files, whatever the umask of this build was."""
    for path in root.rglob("*"):
        if not path.is_symlink():
            is_program = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if is_program else 0o644)


def _parent_of(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _write(path: Path, content: bytes) -> None:
    _parent_of(path).write_bytes(content)


def _output(*command: str | os.PathLike[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), Path(sys.argv[2]).absolute())
