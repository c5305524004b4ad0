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
from prune_gui.pruning.base import BasePruningMethod
from prune_gui.pruning.container import mask_on_top
from prune_gui.pruning.reparametrization import is_binary

log = logging.getLogger(__name__)

LONGEST: Final = 300
"""Characters of a foreign message that are passed on."""


class Fault(Exception):  # noqa: N818 - of a plug-in, and never seen outside of this package
    """What is wrong with a plug-in, in words that follow its name."""


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
            raise Raised(_told(error)) from error


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
            raise Fault("is 'structured', but has no `dim`: set self.dim in its __init__")
        if there is None:
            mask = method.compute_mask(t, default_mask=torch.ones_like(t))
        else:
            mask = mask_on_top(method, t, there.to(t.dtype))
        if not isinstance(mask, Tensor):
            raise Fault(f"returned a {type(mask).__name__} in place of a mask")
        if mask.shape != t.shape:
            raise Fault(
                f"was shown scores of shape {tuple(t.shape)}, but returned a mask of shape "
                f"{tuple(mask.shape)}"
            )
        if not is_binary(mask):
            raise Fault("returned a mask that holds values other than 0 and 1")
        return mask.detach().cpu() != 0


def _dim(method: BasePruningMethod) -> object:
    return getattr(method, "dim", None)


def _told(error: BaseException) -> str:
    """Return in one line what happened."""
    if isinstance(error, SystemExit):
        return "called sys.exit"
    if isinstance(error, SyntaxError):
        return f"is no Python, see line {error.lineno}: {error.msg}"
    message = one_line(" ".join(str(error).split()), LONGEST)
    return f"raised {type(error).__name__}{': ' if message else ''}{message}".rstrip(".")
