"""The method that applies a custom mask."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.utils import prune as reference

from prune_gui.pruning.modules.base import BasePruningMethod
from prune_gui.pruning.modules.masking import is_binary, mask_product
from prune_gui.pruning.modules.reparametrization import PrunedTensor
from prune_gui.pruning.selection.scores import has_values


@reference.CustomFromMask.register
class CustomFromMask(BasePruningMethod):
    """Prune where a custom mask is 0. The new mask is the product of the old and the custom mask.

    Args:
        mask: of the parameter's shape, any dtype; only 0 and 1, while torch accepts any values. It
            is copied as boolean, so that a slice of a larger mask does not keep that in memory, as
            a slice of the mask of a global step does in torch.

    Raises:
        TypeError: `mask` is not a tensor.
        ValueError: `mask` holds values other than 0 and 1.
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        if not isinstance(mask, Tensor):
            raise TypeError(f"The mask is a {type(mask).__name__}; it must be a torch.Tensor.")
        if not is_binary(mask):
            raise ValueError(
                "The mask holds values other than 0 and 1. Make it boolean first, for example "
                "with `mask != 0`."
            )
        self.mask = mask != 0

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return `default_mask` times the custom mask, in the dtype of `default_mask`.

        Raises:
            AssertionError: the shapes differ.
        """
        return mask_product(default_mask, self._mask_like(default_mask))

    def mask_for(self, tensor: PrunedTensor, values: Tensor) -> Tensor:
        """See `BasePruningMethod.mask_for`."""
        return tensor.mask_without(self._mask_like(values))

    def _mask_like(self, t: Tensor) -> Tensor:
        """Return the custom mask on the device of a tensor, of whose shape it must be."""
        if self.mask.shape != t.shape:
            raise AssertionError(
                f"The mask has shape {tuple(self.mask.shape)}; the parameter has {tuple(t.shape)}."
            )
        if has_values(self.mask) and not has_values(t):
            raise ValueError(
                f"The mask has values, but the parameter on {t.device} has none. Load its weights "
                "first."
            )
        return self.mask.to(t.device)

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: nn.Module, name: str, mask: Tensor
    ) -> BasePruningMethod:
        """See `BasePruningMethod.apply`."""
        return super().apply(module, name, mask=mask)
