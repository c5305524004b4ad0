"""Update the translations from the source code: ``python packaging/translate.py``.

Extracts every message of the program: the literals in calls of `tr`, `trn`, `deferred` and of
errors, in code and in the templates of the report; the first paragraph of the docstring of each
built-in method; and the titles of units in the tables of architectures. Adds new messages to each
catalogue `resources/translations/*.po`, removes obsolete ones, compiles the catalogue to `.mo`, and
prints the untranslated messages. A `.po` file can be edited with any gettext editor.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from prune_gui import errors
from prune_gui.architecture.tables import own_tables
from prune_gui.pruning.methods import METHODS, Method, summary_of

ROOT: Final = Path(__file__).parents[1]
TRANSLATIONS: Final = ROOT / "resources" / "translations"
KEYWORDS: Final = {"tr": None, "trn": (1, 2), "deferred": None, "FalseClaimError": None}
ERRORS: Final = dict.fromkeys(
    ["on_os_error", *(name for name in vars(errors) if name.endswith("Error"))]
)
IN_ENGLISH: Final = ("cli/**.py", "gui/desktop.py")
"""Errors that only the command line shows."""
SOURCES: Final = (
    ("prune_gui", [(path, "python") for path in IN_ENGLISH], KEYWORDS),
    (
        "prune_gui",
        [*((path, "ignore") for path in IN_ENGLISH), ("**.py", "python")],
        KEYWORDS | ERRORS,
    ),
    ("resources/report", [("**.html", "jinja2.ext:babel_extract")], KEYWORDS),
)
"""The folders with messages, what extracts them from their files, and the functions."""


@cache
def found() -> Catalog:
    """Return the catalogue of all messages of the program, without translations."""
    template = Catalog(project="Prune GUI", charset="utf-8")
    for folder, methods, keywords in SOURCES:
        found_in_folder = extract_from_dir(ROOT / folder, method_map=methods, keywords=keywords)
        for path, _, message, _, _ in found_in_folder:
            template.add(message, locations=[(f"{folder}/{path}", 0)])
    for method in METHODS.values():
        if method.source == Method.source:
            module = method.__module__.replace(".", "/")
            template.add(summary_of(method), locations=[(f"{module}.py", 0)])
    for table in own_tables():
        for space in table.spaces.values():
            template.add(space.title, locations=[("resources/architectures", 0)])
    return template


def read(path: Path) -> Catalog:
    """Read a catalogue from a `.po` file."""
    with path.open("rb") as file:
        return read_po(file, locale=path.stem)


def main() -> None:
    """Update and compile every catalogue, and print the untranslated messages."""
    template = found()
    for path in sorted(TRANSLATIONS.glob("*.po")):
        catalogue = read(path)
        catalogue.update(template, no_fuzzy_matching=True, update_creation_date=False)
        catalogue.obsolete.clear()
        catalogue.msgid_bugs_address = catalogue.last_translator = "none"
        with path.open("wb") as file:
            write_po(file, catalogue, include_lineno=False, sort_output=True, width=100)
        with path.with_suffix(".mo").open("wb") as file:
            write_mo(file, catalogue)
        for message in catalogue:
            if message.id and not (all(message.string) if message.pluralizable else message.string):
                print(f"{path.name}: not translated: {message.id!r}")


if __name__ == "__main__":
    main()
