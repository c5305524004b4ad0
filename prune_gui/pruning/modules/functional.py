"""Functions that prune one parameter of a module, in place, and return the module.

Each turns the parameter `<name>` into the parameter `<name>_orig` and the buffer `<name>_mask`, and
`<name>` into an attribute that a hook makes from the two before every forward pass. A further call
prunes on top of the first, among what is still there. A call that fails changes nothing.

They raise what `BasePruningMethod.apply` and the method raise.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.utils import prune as reference

from prune_gui.pruning.amount import Amount
from prune_gui.pruning.modules.base import BasePruningMethod
from prune_gui.pruning.modules.custom import CustomFromMask
from prune_gui.pruning.modules.reparametrization import (
    MASK,
    keep,
    pruning_hooks,
    unchanged_on_error,
)
from prune_gui.pruning.modules.structured import LnStructured, RandomStructured
from prune_gui.pruning.modules.unstructured import Identity, L1Unstructured, RandomUnstructured
from prune_gui.pruning.norms.orders import Order


def identity(module: nn.Module, name: str) -> nn.Module:
    """Prune nothing, but make the parameter a pruned one, with a mask of ones.

    Example:
        >>> identity(nn.Linear(2, 3), "bias").bias_mask
        tensor([1., 1., 1.])
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: nn.Module, name: str, amount: Amount) -> nn.Module:
    """Prune entries at random, see `RandomUnstructured`.

    Args:
        module: changed in place.
        name: of a parameter of this module.
        amount: a share in [0, 1] of the entries still there, or a whole number of them.

    Example:
        >>> random_unstructured(nn.Linear(2, 3), "weight", amount=1).weight_mask.sum()
        tensor(5.)
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: nn.Module, name: str, amount: Amount, importance_scores: Tensor | None = None
) -> nn.Module:
    """Prune the entries of least absolute value, see `L1Unstructured`.

    Args:
        module: changed in place.
        name: of a parameter of this module.
        amount: a share in [0, 1] of the entries still there, or a whole number of them.
        importance_scores: of the parameter's shape, ranked in its place by absolute value.

    Example:
        >>> list(l1_unstructured(nn.Linear(2, 3), "weight", amount=0.2).state_dict())
        ['bias', 'weight_orig', 'weight_mask']
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: nn.Module, name: str, amount: Amount, dim: int) -> nn.Module:
    """Prune channels at random, see `RandomStructured`.

    Args:
        module: changed in place.
        name: of a parameter of this module.
        amount: a share in [0, 1] of the channels not wholly pruned, or a whole number of them.
        dim: along which the channels lie.

    Example:
        >>> pruned = random_structured(nn.Linear(5, 3), "weight", amount=3, dim=1)
        >>> (pruned.weight_mask.sum(dim=0) == 0).sum()
        tensor(3)
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: nn.Module,
    name: str,
    amount: Amount,
    n: Order,
    dim: int,
    importance_scores: Tensor | None = None,
) -> nn.Module:
    """Prune the channels of least norm, see `LnStructured`.

    Args:
        module: changed in place.
        name: of a parameter of this module.
        amount: a share in [0, 1] of the channels not wholly pruned, or a whole number of them.
        n: order of the norm: a number, inf, -inf, "fro" or "nuc".
        dim: along which the channels lie.
        importance_scores: of the parameter's shape, ranked in its place.

    Example:
        >>> ln_structured(nn.Conv2d(5, 3, 2), "weight", amount=0.4, n=2, dim=1).weight_mask.sum()
        tensor(36.)
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: nn.Module, name: str, mask: Tensor) -> nn.Module:
    """Prune where a given mask is 0, see `CustomFromMask`.

    Args:
        module: changed in place.
        name: of a parameter of this module.
        mask: of the parameter's shape, any dtype; nothing but 0 and 1.

    Example:
        >>> custom_from_mask(nn.Linear(5, 3), "bias", mask=torch.tensor([0, 1, 0])).bias_mask
        tensor([0., 1., 0.])
    """
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: nn.Module, name: str) -> nn.Module:
    """Make pruning final: `<name>` is a parameter again, pruned; `_orig` and `_mask` are gone.

    Pruned entries are +0, also of what torch pruned: its own product may leave -0 or NaN there.

    Args:
        module: changed in place.
        name: of a parameter of this module that has been pruned, here or by torch.

    Raises:
        ValueError: it has not.
    """
    for key, hook in pruning_hooks(module, name).items():
        mask = getattr(module, name + MASK)
        with unchanged_on_error(module):
            hook.remove(module)
            del module._forward_pre_hooks[key]
        if not isinstance(hook, BasePruningMethod):
            parameter = getattr(module, name)
            parameter.data = keep(parameter.data, mask)
        return module
    raise ValueError(f"'{name}' of {module} has not been pruned; there is nothing to remove.")


def is_pruned(module: nn.Module) -> bool:
    """Tell whether any parameter of a module, or of a module within it, is pruned.

    Example:
        >>> layer = nn.Linear(5, 7)
        >>> is_pruned(layer)
        False
        >>> is_pruned(random_unstructured(layer, "weight", amount=0.2))
        True
    """
    return any(
        isinstance(hook, reference.BasePruningMethod)
        for part in module.modules()
        for hook in part._forward_pre_hooks.values()
    )
