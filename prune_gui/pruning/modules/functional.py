"""Functions that prune one parameter of a module, in place, and return the module.

Each replaces the parameter `<name>` by the parameter `<name>_orig` and the buffer `<name>_mask`.
`<name>` becomes an attribute that is computed from the two whenever it is read, so that it is never
that of earlier weights. A further call prunes among the remaining elements. A call that fails
changes nothing.

They raise the errors of `BasePruningMethod.apply` and of the method.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.utils import prune as reference

from prune_gui.pruning.amount import Amount
from prune_gui.pruning.modules.base import BasePruningMethod
from prune_gui.pruning.modules.computed import MASK
from prune_gui.pruning.modules.custom import CustomFromMask
from prune_gui.pruning.modules.masking import keep
from prune_gui.pruning.modules.reparametrization import pruning_hooks, unchanged_on_error
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
    """Prune elements at random, see `RandomUnstructured`.

    Args:
        module: changed in place.
        name: name of a parameter of this module.
        amount: a share in [0, 1] of the remaining elements, or a whole number of them.

    Example:
        >>> random_unstructured(nn.Linear(2, 3), "weight", amount=1).weight_mask.sum()
        tensor(5.)
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: nn.Module, name: str, amount: Amount, importance_scores: Tensor | None = None
) -> nn.Module:
    """Prune the elements of smallest absolute value, see `L1Unstructured`.

    Args:
        module: changed in place.
        name: name of a parameter of this module.
        amount: a share in [0, 1] of the remaining elements, or a whole number of them.
        importance_scores: of the parameter's shape; their absolute values are ranked.

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
        name: name of a parameter of this module.
        amount: a share in [0, 1] of the channels with remaining elements, or a number of them.
        dim: the dimension that indexes the channels.

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
    """Prune the channels of smallest norm, see `LnStructured`.

    Args:
        module: changed in place.
        name: name of a parameter of this module.
        amount: a share in [0, 1] of the channels with remaining elements, or a number of them.
        n: order of the norm: a number, inf, -inf, "fro" or "nuc".
        dim: the dimension that indexes the channels.
        importance_scores: of the parameter's shape, ranked instead of its weights.

    Example:
        >>> ln_structured(nn.Conv2d(5, 3, 2), "weight", amount=0.4, n=2, dim=1).weight_mask.sum()
        tensor(36.)
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: nn.Module, name: str, mask: Tensor) -> nn.Module:
    """Prune where a custom mask is 0, see `CustomFromMask`.

    Args:
        module: changed in place.
        name: name of a parameter of this module.
        mask: of the parameter's shape, any dtype; only 0 and 1.

    Example:
        >>> custom_from_mask(nn.Linear(5, 3), "bias", mask=torch.tensor([0, 1, 0])).bias_mask
        tensor([0., 1., 0.])
    """
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: nn.Module, name: str) -> nn.Module:
    """Make pruning permanent: `<name>` is a parameter again; `_orig` and `_mask` are removed.

    Pruned elements are +0, even if torch pruned them: its product may leave -0 or NaN there.

    Args:
        module: changed in place.
        name: name of a parameter of this module, pruned by this package or by torch.

    Raises:
        ValueError: the parameter is not pruned.
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
    """Return whether any parameter of a module or of its submodules is pruned.

    Example:
        >>> layer = nn.Linear(5, 7)
        >>> is_pruned(layer)
        False
        >>> is_pruned(random_unstructured(layer, "weight", amount=0.2))
        True
    """
    return any(
        isinstance(hook, reference.BasePruningMethod)
        for submodule in module.modules()
        for hook in submodule._forward_pre_hooks.values()
    )
