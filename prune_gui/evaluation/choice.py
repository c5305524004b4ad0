"""The evaluator that the user chose, as it is kept in the settings."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from prune_gui.errors import EvaluationError
from prune_gui.evaluation.spec import MAX_SOURCE_BYTES
from prune_gui.regular_files import read_regular
from prune_gui.resources import is_shipped, resource

if TYPE_CHECKING:
    from prune_gui.checkpoint import Checkpoint
    from prune_gui.evaluation import Evaluator

MAX_TEXT_LENGTH: Final = 10_000
TIMEOUT_S: Final = 3600.0

Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT_LENGTH)]


class EvaluatorChoice(BaseModel):
    """An evaluator with its options; the arguments of `Evaluator`.

    Attributes:
        timeout_s: limit on the time of one evaluation, in seconds.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    text: Text
    python: Text | None = None
    pass_as: Literal["path", "state_dict"] | None = None
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
        statements = ast.parse(read_regular(path, MAX_SOURCE_BYTES)).body
    except OSError as error:
        raise EvaluationError(
            "{path} cannot be read: {reason}.", path=path, reason=error.strerror
        ) from error
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
