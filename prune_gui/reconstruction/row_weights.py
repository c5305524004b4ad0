"""How much the rows of a weight matter: what a change of their outputs does to those of the block.

A layer is solved for its own outputs, each row apart. Only the choice of a mask that compares rows
asks which of them to spare. To second order, a change e of output r of a layer at one token changes
the output Y of the block by |dY/dr|^2 e^2. The mean of |dY/dr|^2 over all tokens is the weight of
row r, estimated as that of the squared derivative of <u, Y> for a standard normal u (Martens et
al., "Estimating the Hessian by back-propagating curvature", 2012). GuidedQuant (Kim et al.,
"GuidedQuant: Large language model quantization via exploiting end loss guidance", 2025) has weights
of the loss of the whole network, for tokens and for groups of rows; these need the block only.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Any, Final, Self

import torch
from torch import Tensor, nn

from prune_gui.monitor import check_cancelled
from prune_gui.reconstruction.networks import Call

log = logging.getLogger(__name__)
BATCHES: Final = 8
"""What the estimate takes: of a language model in a folder, 8,192 tokens."""
LEAST: Final = 0.01
"""What is added to the weights, whose mean is 1, so that none is 0."""


def row_weights(
    block: nn.Module, modules: Iterable[nn.Module], inputs: Sequence[Tensor], calls: Sequence[Call]
) -> dict[nn.Module, Tensor]:
    """Return the weights of the rows of layers of a dense block, float32 (rows,).

    A layer is missing if the output of the block has no derivative by its outputs.

    Args:
        inputs: of the block, by batch; the first batches count.
    """
    modules = list(modules)
    if not modules:
        return {}
    generator = torch.Generator().manual_seed(0)
    try:
        with SquaredDerivatives(modules) as squares:
            for batch, call in zip(inputs[:BATCHES], calls[:BATCHES], strict=True):
                check_cancelled()
                output = squares.run(block, batch, call)
                squares.add(output, random_direction(output, generator))
    except RuntimeError as error:  # such as of code that changes in place what gradients need
        log.info("rows count the same in a block without gradients: %s", error)
        return {}
    return {
        module: total / total.mean() + LEAST
        for module, total in squares.sums.items()
        if bool(total.isfinite().all()) and bool(total.any())
    }


def random_direction(output: Tensor, generator: torch.Generator) -> Tensor:
    """Return standard normal numbers of the shape of an output."""
    return torch.randn(output.shape, generator=generator).to(output)


class SquaredDerivatives:
    """The sums over vectors of squared derivatives by the outputs of layers, in a `with` block.

    Attributes:
        sums: float32 (rows,), of layers that have any.
    """

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        self.sums: dict[nn.Module, Tensor] = {}
        self._modules = modules
        self._outputs: list[tuple[nn.Module, Tensor]] = []
        self._hooks = ExitStack()

    def __enter__(self) -> Self:
        for module in self._modules:
            self._hooks.enter_context(module.register_forward_hook(self._note))
        return self

    def __exit__(self, *_: object) -> None:
        self._hooks.close()

    def _note(self, module: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
        self._outputs.append((module, output.requires_grad_()))
        return output.clone()  # which the block may change in place

    @torch.enable_grad()
    def run(self, block: nn.Module, inputs: Tensor, call: Call) -> Tensor:
        """Return the output of a block."""
        self._outputs.clear()
        return call.run(block, inputs)

    def add(self, output: Tensor, direction: Tensor) -> None:
        """Add the squared derivatives of <direction, output>."""
        if not output.requires_grad:
            return
        tensors = [one for _, one in self._outputs]
        found = torch.autograd.grad(output, tensors, direction, allow_unused=True)
        for (module, _), one in zip(self._outputs, found, strict=True):
            if one is not None:
                squares = rows_first(module, one.float()).square().sum(1)
                self.sums[module] = self.sums.get(module, 0) + squares


def rows_first(module: nn.Module, output: Tensor) -> Tensor:
    """Return an output of a layer as (rows, vectors)."""
    row = -1 - len(getattr(module, "kernel_size", ()))
    return output.movedim(row, 0).flatten(1)
