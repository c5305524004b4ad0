"""The code blocks of the documentation, and how they run."""

from __future__ import annotations

import io
import re
import runpy
import shlex
import sys
import tomllib
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click
import yaml

from prune_gui.cli.program import COMMANDS, cli
from prune_gui.recipe import Recipe

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "README.md", ROOT / "resources" / "guide" / "guide.md"),
    )
)
INSTALLERS: Final = ("pip", "pipx", "uv", "uvx", "python3", "git", "apt")
"""Programs whose commands are not run: they install something, or need the network."""
IN_A_VENV: Final = ".venv/bin/"
"""Commands of an environment that the reader makes are not run."""
WINDOW_COMMANDS: Final = ("open", "demo")
"""Commands of prune-gui that open the window; only their arguments are checked."""
EVALUATING: Final = ("evaluate", "scan", "search")
"""Commands of prune-gui that ask whether the reader trusts the evaluator."""
_BLOCK: Final = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^>]+) -->\n+)?"
    r"^(?P<indent> *)```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n"
    r"(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_SNIPPET: Final = re.compile(r'^--8<-- "(.+)"$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of code.

    Attributes:
        language: of the code.
        title: the name of the file that the block is the content of; "prints" for the output of the
            block before it; "" for code to run.
        text: the code.
        line: the number of its first line in the page.
        reason: why it is not run; "" if it is.
    """

    language: str
    title: str
    text: str
    line: int
    reason: str = ""


def blocks_of(page: str) -> list[Block]:
    """Return the blocks of a page, with the files that it includes."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [
        Block(
            found["language"],
            found["title"] or "",
            re.sub(f"^{found['indent']}", "", included(found["text"]), flags=re.MULTILINE),
            text.count("\n", 0, found.start("text")) + 1,
            found["reason"] or "",
        )
        for found in _BLOCK.finditer(text)
    ]


def included(text: str) -> str:
    """Return text with the files that it includes."""
    return _SNIPPET.sub(lambda found: (ROOT / found[1]).read_text(encoding="utf-8"), text)


@dataclass
class Page:
    """Runs the blocks of a page in order, in the working folder.

    Attributes:
        names: the global names of the Python blocks, which share them.
        printed: what the last block that ran printed.
    """

    names: dict[str, Any] = field(default_factory=dict)
    printed: str = ""

    def run(self, block: Block) -> None:
        """Run a block, or check it."""
        if block.title == "prints":
            assert self.printed.strip() == block.text.strip()
        elif block.language == "yaml":
            check_recipe(block.text)
        elif block.language == "toml":
            tomllib.loads(block.text)
        elif block.language == "text":
            assert block.title == "", "text is only output"
        elif block.title:
            assert block.language == "python", f"no rule for {block.language}"
            compile(block.text, block.title, "exec")
        else:
            output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
            with redirect_stdout(output):
                if block.language == "python":
                    exec(compile(block.text, "block.py", "exec"), self.names)
                else:
                    assert block.language == "sh", f"no rule for {block.language}"
                    for command in commands_of(block.text):
                        run_command(command)
            self.printed = output.buffer.getvalue().decode()
        if block.title not in ("", "prints"):
            path = Path(block.title)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")


def check_recipe(text: str) -> None:
    """Check that YAML is a recipe, or the steps of one."""
    content = yaml.safe_load(text)
    if isinstance(content, list):
        content = {"steps": content}
    Recipe.from_yaml(yaml.safe_dump(content))


def commands_of(text: str) -> list[list[str]]:
    """Return the commands of a shell block, without comments."""
    lines = text.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def run_command(words: list[str]) -> None:
    """Run a command in this process."""
    program, *arguments = words
    if program in INSTALLERS or program.startswith(IN_A_VENV):
        return
    if program == "python":
        script, *sys.argv[1:] = arguments
        runpy.run_path(script, run_name="__main__")
        return
    assert program == "prune-gui", f"no rule for {program}"
    name = arguments[0] if arguments and arguments[0] in COMMANDS else "open"
    if name in WINDOW_COMMANDS:
        own = arguments[1:] if arguments[:1] == [name] else arguments
        context = click.Context(cli, info_name="prune-gui")
        cli.get_command(context, name).make_context(name, own, context)
        return
    consent = ["--yes"] if name in EVALUATING else []
    cli.main([*arguments, *consent], standalone_mode=False)
