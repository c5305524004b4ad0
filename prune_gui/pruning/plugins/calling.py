"""Running code that is not ours, so that whatever it does ends in a mask or in a sentence."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Final

import torch
from torch import Tensor

from prune_gui.errors import one_line
from prune_gui.language import later, tr
from prune_gui.pruning.base import BasePruningMethod
from prune_gui.pruning.container import mask_on_top
from prune_gui.pruning.reparametrization import is_binary

log = logging.getLogger(__name__)

LONGEST: Final = 300
"""Characters of a foreign message that are passed on."""


class Fault(Exception):  # noqa: N818 - of a plug-in, and never seen outside of this package
    """What is wrong with a plug-in.

    Args:
        message: for `tr`, with ``{it}`` where the plug-in is named.
        fields: of the message, beside that one.
    """

    def __init__(self, message: str, **fields: object) -> None:
        super().__init__(message)
        self._message = message
        self._fields = fields

    def of(self, it: object) -> str:
        """Return what is wrong, of a plug-in that is called so."""
        return tr(self._message, it=it, **self._fields)


class Raised(Fault):
    """It raised an exception."""


_one_at_a_time = threading.RLock()
"""torch's generator and the standard output are the whole process's."""


@contextmanager
def foreign(seed: int = 0) -> Iterator[None]:
    """Run foreign code by itself, under a seed; the user's generator stays where it was.

    What it prints goes to standard error: standard output may be JSON.

    Raises:
        Raised: it raised an exception; the log has the traceback.
    """
    with _one_at_a_time, redirect_stdout(sys.stderr), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        try:
            yield
        except Fault:
            raise
        except (Exception, SystemExit) as error:
            log.info("The code of a plug-in failed", exc_info=True)
            raise _raised(error) from error


def ask(
    build: Callable[[], BasePruningMethod], t: Tensor, there: Tensor | None, name: str, seed: int
) -> Tensor:
    """Have a plug-in make a mask, called as torch calls it.

    Args:
        build: constructs it.
        t: scores, +0 where pruned before; the plug-in may write to them.
        there: boolean, where entries are still there; None if nothing was pruned before. Then the
            plug-in is shown all of `t` as it is, else what its `PRUNING_TYPE` says.
        name: what torch calls the parameter: "weight".
        seed: of torch's generator.

    Returns:
        Boolean, of the shape of `t`, True where the plug-in keeps.

    Raises:
        Fault: it makes none.
    """
    with foreign(seed):
        method = build()
        method._tensor_name = name
        if method.PRUNING_TYPE == "structured" and not isinstance(_dim(method), int):
            raise Fault(
                later("{it} is 'structured', but has no `dim`: set self.dim in its __init__")
            )
        if there is None:
            mask = method.compute_mask(t, default_mask=torch.ones_like(t))
        else:
            mask = mask_on_top(method, t, there.to(t.dtype))
        if not isinstance(mask, Tensor):
            raise Fault(
                later("{it} returned a {kind} in place of a mask"), kind=type(mask).__name__
            )
        if mask.shape != t.shape:
            raise Fault(
                later(
                    "{it} was shown scores of shape {shown}, but returned a mask of shape {made}"
                ),
                shown=tuple(t.shape),
                made=tuple(mask.shape),
            )
        if not is_binary(mask):
            raise Fault(later("{it} returned a mask that holds values other than 0 and 1"))
        return mask.detach().cpu() != 0


def _dim(method: BasePruningMethod) -> object:
    return getattr(method, "dim", None)


def _raised(error: BaseException) -> Raised:
    """Return what says in one line what happened."""
    if isinstance(error, SystemExit):
        return Raised(later("{it} called sys.exit"))
    if isinstance(error, SyntaxError):
        message = later("{it} is no Python, see line {line}: {reason}")
        return Raised(message, line=error.lineno, reason=error.msg)
    kind, told = type(error).__name__, one_line(" ".join(str(error).split()), LONGEST).rstrip(".")
    if not told:
        return Raised(later("{it} raised {kind}"), kind=kind)
    return Raised(later("{it} raised {kind}: {told}"), kind=kind, told=told)
