"""Collect the licences of everything in the bundle: ``python licences.py OUT.txt``.

Run it with the interpreter of the environment that the bundle is built from. It writes the licence
texts of Prune GUI, of Python, and of each distribution that Prune GUI needs, as their packages
state them, and says of which packages the text is missing.
"""

from __future__ import annotations

import platform
import sys
import sysconfig
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

NAMES: Final = ("licen", "copying", "notice", "authors", "copyright", "third_party")
"""Parts of the names of files with licences."""
EXTRAS: Final = ("keras", "search", "tokens")
MAX_BYTES: Final = 1 << 22
RULE: Final = "=" * 100


def needed(name: str, extras: tuple[str, ...] = ()) -> dict[str, Distribution]:
    """Return a distribution and all that it needs on this system, by lower-case name."""
    found: dict[str, Distribution] = {}
    waiting = [(name, extras)]
    while waiting:
        one, its_extras = waiting.pop()
        key = one.lower().replace("_", "-")
        if key in found:
            continue
        try:
            found[key] = distribution(one)
        except PackageNotFoundError:
            continue  # of another platform
        for text in found[key].requires or ():
            requirement = Requirement(text)
            environments = [{"extra": extra} for extra in ("", *its_extras)]
            marker = requirement.marker
            if marker is None or any(marker.evaluate(each) for each in environments):
                waiting.append((requirement.name, tuple(requirement.extras)))
    return dict(sorted(found.items()))


def licence_files(package: Distribution) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each file with a licence, also of libraries inside a package."""
    for file in sorted(package.files or (), key=str):
        if any(part in file.name.lower() for part in NAMES) and file.suffix not in (".py", ".pyc"):
            path = Path(str(package.locate_file(file)))
            if path.is_file() and path.stat().st_size <= MAX_BYTES:
                yield str(file), path.read_text(encoding="utf-8", errors="replace")


def stated_licence(package: Distribution) -> str:
    """Return the name of the licence in the metadata of a package."""
    metadata = package.metadata
    classifiers = metadata.get_all("Classifier") or []
    named = [line.rpartition(" :: ")[2] for line in classifiers if line.startswith("License")]
    first_lines = [(metadata.get(key) or "").strip() for key in ("License-Expression", "License")]
    stated = [text.splitlines()[0] for text in first_lines if text]
    return (stated or [", ".join(named)])[0] or "not stated"


def python_licence() -> Iterator[str]:
    """Yield the licence of Python, if its installation has it."""
    libraries = Path(sysconfig.get_path("stdlib"))
    for path in (libraries / "LICENSE.txt", Path(sys.base_prefix, "LICENSE.txt")):
        if path.is_file():
            yield path.read_text(encoding="utf-8")
            return


def main(out: Path) -> None:
    """Write the licences to a file, and print which packages have no text."""
    packages = needed("prune-gui", EXTRAS)
    # Its bootloader starts the bundle; its licence permits any licence for what it starts.
    packages["pyinstaller"] = distribution("pyinstaller")
    title = f"Python {platform.python_version()}"
    sections = [f"{RULE}\n{title}\nPython Software Foundation License\n{RULE}\n\n"]
    sections += python_licence()
    without = []
    for package in packages.values():
        name = f"{package.metadata['Name']} {package.version}"
        sections.append(f"\n{RULE}\n{name}\n{stated_licence(package)}\n{RULE}\n")
        texts = list(dict.fromkeys(licence_files(package)))
        sections += [f"\n--- {file}\n\n{text.rstrip()}\n" for file, text in texts]
        if not texts:
            without.append(name)
    if without:
        sections.append(f"\n{RULE}\nWithout a licence text in the package: {', '.join(without)}\n")
    out.write_text("".join(sections), encoding="utf-8")
    print(f"{out}: {len(packages) + 1} licences; without a text: {', '.join(without) or 'none'}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
