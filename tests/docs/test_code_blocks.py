"""Every code block of the documentation runs, in the order of its page.

`python` blocks and the `prune-gui` commands of `sh` blocks run in a temporary folder; `yaml` blocks
must be recipes. A block with a title is the content of a file; with the title "prints", what the
block before it prints. The comment ``<!-- not run: reason -->`` before a block exempts it.
`blocks.py` lists the programs that are not run, which install something.
"""

from __future__ import annotations

import contextlib
import runpy
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from blocks import PAGES, ROOT, Block, Page, blocks_of
from small_networks import write_files
from torch import nn

MAX_EXEMPT = 8
"""Limit on the blocks that are not run."""
SLOW = ("README.md", "docs/how-to/evaluate-and-search.md", "docs/how-to/sweep.md")
"""Pages that start processes of evaluators."""


@pytest.fixture(scope="session")
def prepared(tmp_path_factory) -> Path:
    """Return a folder with the files that pages take for granted, which are the reader's own."""
    folder = tmp_path_factory.mktemp("prepared")
    write_files(folder)
    for name in ("demo", "examples"):
        shutil.copytree(ROOT / "resources" / name, folder / name)
    (folder / "resources").symlink_to(ROOT / "resources")
    shutil.copy(ROOT / "docs" / "examples" / "spirals.py", folder)
    with contextlib.chdir(folder):
        runpy.run_path("spirals.py", run_name="__main__")
    return folder


@pytest.fixture
def page(prepared, tmp_path, monkeypatch, plugin_file) -> Iterator[Page]:
    """Return a page that runs in its own folder, with the names that the reader has."""
    folder = tmp_path / "page"
    shutil.copytree(prepared, folder, symlinks=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    monkeypatch.setattr(sys, "argv", ["prune-gui"])
    monkeypatch.syspath_prepend(str(folder))
    yield Page(
        {
            "__name__": "__main__",
            "model": nn.Linear(4, 2),
            "batches": [(torch.randn(1, 4), torch.randn(1, 2))],
            "loss_function": nn.functional.mse_loss,
        }
    )
    for name in [name for name, module in sys.modules.items() if _is_below(module, folder)]:
        del sys.modules[name]


def _is_below(module: object, folder: Path) -> bool:
    return str(getattr(module, "__file__", None) or "").startswith(str(folder))


@pytest.mark.parametrize(
    "path", [pytest.param(path, marks=[pytest.mark.slow] if path in SLOW else []) for path in PAGES]
)
def test_the_code_blocks_of_a_page_run(path: str, page: Page):
    for block in blocks_of(path):
        if block.reason:
            continue
        try:
            page.run(block)
        except (Exception, SystemExit) as error:
            raise AssertionError(f"{path}:{block.line}: {error}") from error


def test_few_blocks_are_exempt_each_for_a_reason():
    exempt = [(path, block.reason) for path in PAGES for block in blocks_of(path) if block.reason]
    assert len(exempt) <= MAX_EXEMPT, exempt


def test_every_fence_is_a_block_with_a_language():
    for path in PAGES:
        fences = (ROOT / path).read_text(encoding="utf-8").count("```")
        assert fences == 2 * len(blocks_of(path)), path


def test_a_wrong_block_fails(page: Page):
    def fails(text: str, language: str = "sh", title: str = "") -> None:
        with pytest.raises((Exception, SystemExit)):
            page.run(Block(language, title, text, 1))

    fails("prune-gui inspect missing.safetensors")
    fails("prune-gui apply --no-such-option")
    fails("prune-gui missing.safetensors")
    fails("rm -r model")
    fails("assert False", "python")
    fails("steps: [{method: unknown, targets: [a]}]", "yaml")
    page.run(Block("python", "", "print(1)", 1))
    fails("2", "text", "prints")
