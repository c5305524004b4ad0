"""What the user names as an evaluator: a command, or a function in a Python file."""

from __future__ import annotations

import ast
import hashlib
import json
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from prune_gui.errors import EvaluationError
from prune_gui.regular_files import read_regular
from prune_gui.resources import is_shipped, resource

if TYPE_CHECKING:
    from prune_gui.checkpoint import Checkpoint
    from prune_gui.evaluation import Evaluator


MAX_SOURCE_BYTES: Final = 1 << 24
MAX_SIBLINGS: Final = 500
"""Limit on the Python files beside that of an evaluator whose contents count."""
CHECKPOINT: Final = "{checkpoint}"
FOLDER: Final = "{folder}"
OUTPUT: Final = "{output}"
SPLIT: Final = "{split}"
SPLIT_NAME: Final = "split"
FINAL: Final = "final"
"""The split of the data for figures to report."""
SEARCH: Final = "search"
"""The split of the data for comparing recipes in a search."""
PYTHON_NAMES: Final = ("python", "python3")

Kind = Literal["command", "function"]
PassAs = Literal["path", "state_dict"]
"""What a function gets: the path of a file, or a dictionary of tensors."""


@dataclass(frozen=True, slots=True)
class EvaluatorSpec:
    """A command or a function, and the interpreter of a function."""

    text: str
    kind: Kind
    argv: tuple[str, ...] = ()  # the words of a command, with placeholders
    path: Path | None = None  # absolute, of the file of a function
    function: str = ""
    python: str = ""
    pass_as: PassAs | None = None
    source: bytes = field(default=b"", repr=False)  # of the file, which is read once

    @classmethod
    def parse(
        cls, text: str, python: str | None = None, pass_as: PassAs | None = None
    ) -> EvaluatorSpec:
        """Parse ``COMMAND {checkpoint} ...``, which no shell runs, or ``FILE.py:FUNCTION``."""
        if CHECKPOINT in text or FOLDER in text:
            if python is not None or pass_as is not None:
                raise EvaluationError(
                    "A command chooses its interpreter and gets a path. Name the interpreter "
                    "in the command."
                )
            return cls(text, "command", argv=_words(text))
        file, colon, function = text.strip().rpartition(":")
        if not colon or not file.endswith(".py") or not function.isidentifier():
            raise EvaluationError(
                "{text!r} is not an evaluator. Write a command with {{checkpoint}} in it, such "
                'as "python eval.py {{checkpoint}}", or a function in a file, such as '
                "eval.py:evaluate.",
                text=text,
            )
        path = Path(file).absolute()
        return cls(
            text, "function", path=path, function=function,
            python=_interpreter(python), pass_as=pass_as, source=_read(path),
        )  # fmt: skip

    @property
    def takes_split(self) -> bool:
        """Whether the name of a split of the data can change the result.

        The file is parsed, not run; a function of other modules, or with a decorator, may take
        anything.
        """
        if self.path is None:
            return any(SPLIT in word for word in self.argv)
        try:
            statements = ast.parse(self.source).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return True
        for each in statements:
            if isinstance(each, ast.FunctionDef) and each.name == self.function:
                own = each.args
                names = [a.arg for a in (*own.posonlyargs, *own.args, *own.kwonlyargs)]
                return SPLIT_NAME in names or bool(each.decorator_list)
        return True

    def code_digest(self) -> str:
        """Return a digest of what the user consents to: the text, and the files that it names.

        The working folder decides which program or module a command finds.
        """
        folder = [] if self.path else [str(Path.cwd())]
        return _digest([*self._settings, *folder], self._named)

    def digest(self) -> str:
        """Return a digest of the text, the working folder, the named files and their siblings."""
        named = [self.path] if self.path else self._named
        scripts = [path.absolute() for path in named if path.suffix == ".py" and path.is_file()]
        siblings = [path for script in scripts for path in _siblings(script)]
        return _digest([*self._settings, str(Path.cwd())], [*self._named, *siblings])

    @property
    def _settings(self) -> list[str | None]:
        source = hashlib.sha256(self.source).hexdigest()
        return [self.kind, self.text, str(self.path), self.python, self.pass_as, source]

    @property
    def _named(self) -> list[Path]:
        return [Path(word) for word in self.argv]


def _read(path: Path) -> bytes:
    with EvaluationError.on_os_error("{path} cannot be read: {reason}.", path=path):
        return read_regular(path, MAX_SOURCE_BYTES)


def _words(command: str) -> tuple[str, ...]:
    """Return the words of a command; if there is no `python`, that of this program is used."""
    try:
        program, *arguments = shlex.split(command)
    except ValueError as error:
        raise EvaluationError(
            "The command {command!r} cannot be split: {reason}.", command=command, reason=error
        ) from error
    found = shutil.which(program)
    if found is None and program in PYTHON_NAMES:
        # A bundle is an interpreter if its first argument is an option of Python.
        option = ["-u"] if getattr(sys, "frozen", False) else []
        return (sys.executable, *option, *arguments)
    if found is None:
        raise EvaluationError(
            "The program {program!r} does not exist, or cannot be run.", program=program
        )
    return (found, *arguments)


def _interpreter(python: str | None) -> str:
    if python is None:
        return sys.executable
    found = shutil.which(python)
    if found is None:
        raise EvaluationError(
            "The interpreter {python!r} does not exist, or cannot be run.", python=python
        )
    return str(Path(found).absolute())


def _siblings(script: Path) -> Iterator[Path]:
    try:
        siblings = sorted(script.parent.glob("*.py"))
    except OSError:
        return
    yield from siblings[:MAX_SIBLINGS]


def _digest(settings: Sequence[str | None], files: Sequence[Path]) -> str:
    digest = hashlib.sha256(json.dumps(settings).encode())
    for path in dict.fromkeys(files):
        try:
            content = read_regular(path, MAX_SOURCE_BYTES)
        except (OSError, ValueError):  # a word of a command that is no file, or a large program
            continue
        digest.update(json.dumps([str(path), hashlib.sha256(content).hexdigest()]).encode())
    return digest.hexdigest()


MAX_TEXT_LENGTH: Final = 10_000
TIMEOUT_S: Final = 3600.0

Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT_LENGTH)]


class EvaluatorChoice(BaseModel):
    """An evaluator with its options, as settings keep it: the arguments of `Evaluator`."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="ignore")

    text: Text
    python: Text | None = None
    pass_as: PassAs | None = None
    metric: Text | None = None
    better: Literal["higher", "lower"] | None = None
    name: Text | None = None
    timeout_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] = TIMEOUT_S
    memory_limit: Annotated[int, Field(gt=0)] | None = None
    use_stored: bool = True

    def make(self) -> Evaluator:
        """Return the evaluator."""
        from prune_gui.evaluation import Evaluator  # slow to import

        arguments = self.model_dump(exclude={"use_stored"})
        return Evaluator(**arguments, cache="use" if self.use_stored else "fresh")

    @property
    def is_shipped(self) -> bool:
        """Whether this runs code of this program only, which needs no consent."""
        return self == DEMO


DEMO: Final = EvaluatorChoice(text=f"{resource('demo', 'evaluate.py')}:evaluate")
"""The evaluator of the demo checkpoint."""


def choice_for(
    checkpoint: Checkpoint, recent: tuple[EvaluatorChoice, ...]
) -> EvaluatorChoice | None:
    """Return the evaluator to begin with: that of the demo, or the one used last; or None."""
    if is_shipped(checkpoint.path):
        return DEMO
    return recent[0] if recent else None


def functions_in(path: Path) -> list[str]:
    """Return the names of the public functions that a Python file defines; it is not run."""
    try:
        statements = ast.parse(_read(path)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise EvaluationError(
            "{path} is not a Python file: {reason}.", path=path, reason=error
        ) from error
    names = [each.name for each in statements if isinstance(each, ast.FunctionDef)]
    public = [name for name in names if not name.startswith("_")]
    if not public:
        raise EvaluationError(
            "{path} defines no function. An evaluator is a function that takes a state dict "
            "or a path, and returns a number.",
            path=path,
        )
    return public
