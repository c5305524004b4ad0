"""Amounts of the layers of a block: more is pruned where the output of the block suffers less.

With the mean squares d_r of the derivatives of <u, Y>, Y being the output of a dense block and u
standard normal, by output r of a layer (see `prune_gui.reconstruction.row_weights`), and the second
moments H of its inputs, the loss of pruning one weight, for which the others of its row make up,
is d_r w_rc^2 / [H^-1]_cc (Hassibi and Stork, "Second order derivatives for network pruning: Optimal
Brain Surgeon", 1993). One threshold of it for all weights that a step prunes in a block gives the
amounts of its layers, within bounds: it knows nothing of weights that go together.

All blocks are pruned as much: losses of different blocks do not compare so, even with derivatives
of the loss of the network, since the errors of the first blocks grow in those that follow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Final

import torch
from torch import Tensor, nn

from prune_gui.errors import ReconstructionError
from prune_gui.evaluation.calibration.layer_inputs import (
    has_rows,
    is_transposed_linear,
    second_moments,
)
from prune_gui.evaluation.calibration.statistics import DeviceSums
from prune_gui.monitor import check_cancelled
from prune_gui.pruning.methods.unstructured import L1UnstructuredMethod
from prune_gui.recipe.correction import least_squares
from prune_gui.recipe.recipe import Recipe
from prune_gui.recipe.resolution import Resolution
from prune_gui.reconstruction.networks import Call, Network
from prune_gui.reconstruction.products import fast_products
from prune_gui.reconstruction.row_weights import (
    SquaredDerivatives,
    random_direction,
    rows_first,
)
from prune_gui.reconstruction.running import Blocks
from prune_gui.reconstruction.solver import damped

BINS: Final = 64
"""For each doubling of the loss of a weight."""
LOWEST: Final = -100
"""Binary logarithm of the smallest loss that is told from 0; the largest is 2^100."""


def with_amounts(
    resolution: Resolution,
    blocks: Blocks,
    network: Network,
    *,
    damping: float,
    spread: float,
) -> Recipe:
    """Return the recipe with as much to prune of each block, but by amounts of its own for a layer.

    Args:
        network: on the batches to take.
        spread: how much an amount may differ from that of the step, as a share of the weights.

    Raises:
        ReconstructionError: see `steps_to_change`; or the blocks have no gradients.
    """
    steps = list(resolution.recipe.steps)
    targets_of = steps_to_change(resolution, blocks)
    amounts: dict[int, dict[str, float]] = defaultdict(dict)
    try:
        for losses in _losses_of_blocks(blocks, network, damping):
            for number, targets in targets_of.items():
                if known := {name: losses[name] for name in targets if name in losses}:
                    counts = [resolution.counts[name] for name in known]
                    share = sum(n for n, _ in counts) / sum(n for _, n in counts)
                    amounts[number] |= amounts_of(known, share, spread)
    except RuntimeError as error:
        raise ReconstructionError(
            "Amounts of their own for layers need gradients, which the blocks do not have: "
            "{reason}. Leave the amounts as they are.",
            reason=error,
        ) from error
    for number, own in amounts.items():
        step = steps[number - 1]
        method = step.method.model_copy(update={"amounts": own})
        steps[number - 1] = step.model_copy(update={"method": method})
    return resolution.recipe.model_copy(update={"steps": steps})


def steps_to_change(resolution: Resolution, blocks: Blocks) -> dict[int, list[str]]:
    """Return the targets in the blocks of steps that have one amount for all, by number of a step.

    Raises:
        ReconstructionError: there are none.
    """
    found: dict[int, list[str]] = defaultdict(list)
    for number in range(len(blocks)):
        for own in blocks.patterns(number):
            name = blocks.full_name(number, own)
            applied = resolution.layers[name]
            if len(applied) == 1 and applied[0].step:
                method = resolution.recipe.steps[applied[0].step - 1].method
                match method:
                    case L1UnstructuredMethod(scope="local" | "row", amounts=None):
                        if method.ranks_weights:
                            found[applied[0].step].append(name)
    if not found:
        raise ReconstructionError(
            "Layers can get amounts of their own only from a step of L1 unstructured by weights, "
            "each parameter or row by itself, that has one amount. Change the recipe, or leave the "
            "amounts as they are."
        )
    return found


def amounts_of(losses: Mapping[str, Tensor], share: float, spread: float) -> dict[str, float]:
    """Return the shares to prune of layers, by one threshold of their losses.

    Args:
        losses: numbers of weights by the logarithm of their losses, int64 (bins,).
        share: of all weights, that is pruned in the end.
        spread: how far from it a layer may be.
    """
    counts = torch.stack(list(losses.values())).double()
    sizes = counts.sum(1)
    least, most = max(share - spread, share / 2), min(share + spread, (1 + share) / 2)
    shares = (counts.cumsum(1) / sizes[:, None]).clamp(least, most)
    shares = torch.nn.functional.pad(shares, (1, 0), value=least)
    pruned = sizes @ shares / sizes.sum()
    at = int(torch.searchsorted(pruned, share).clamp(1, len(pruned) - 1))
    before, after = pruned[at - 1], pruned[at]
    part = (share - before) / (after - before).clamp_min(1e-12)
    found = torch.lerp(shares[:, at - 1], shares[:, at], part)
    return dict(zip(losses, found.tolist(), strict=True))


@torch.no_grad()
def _losses_of_blocks(
    blocks: Blocks, network: Network, damping: float
) -> Iterator[dict[str, Tensor]]:
    """Yield how many weights of each layer of a block have which loss, see `amounts_of`."""
    known: dict[nn.Module, list[Tensor]] = {}
    for one in network.lists:
        calls = network.calls(one, known)
        batches = calls.inputs
        for index, module in enumerate(one):
            number = one.first + index
            names = {own: blocks.full_name(number, own) for own in blocks.patterns(number)}
            of_block = calls.of_block[index]
            yield _block_losses(blocks.dense(number), names, of_block, batches, damping)
            blocks.release(number)
            if module in network.exposed:
                known[module] = list(batches)


def _block_losses(
    block: nn.Module,
    names: Mapping[str, str],
    calls: Sequence[Call],
    batches: list[Tensor],
    damping: float,
) -> dict[str, Tensor]:
    """Return the losses of the layers of a block, and replace its inputs by its outputs.

    Args:
        names: of the weights to prune, by their name in the block.
    """
    modules = {
        module: names[name]
        for path, module in block.named_modules()
        if has_rows(module) and (name := f"{path}.weight".removeprefix(".")) in names
    }
    moments: DeviceSums[nn.Module] = DeviceSums()
    generator = torch.Generator().manual_seed(0)
    with fast_products(), SquaredDerivatives(modules) as squares:
        for batch, call in enumerate(calls):
            check_cancelled()

            def note(
                module: nn.Module, args: tuple[Tensor, ...], output: Tensor, call: Call = call
            ) -> None:
                vectors = rows_first(module, call.counted(output)).shape[1]
                read = call.counted(args[0].detach())
                moments.add(module, second_moments(module, read), vectors)

            with ExitStack() as hooks:
                for module in modules:
                    hooks.enter_context(module.register_forward_hook(note))
                output = squares.run(block, batches[batch], call)
            squares.add(output, random_direction(output, generator))
            batches[batch] = output.detach()
    losses: dict[str, Tensor] = {}
    for module, of_rows in squares.sums.items():
        system = moments.total(module, None)
        if not bool(system.isfinite().all() & of_rows.isfinite().all()):
            continue
        system = system if system.dim() == 3 else system[None]
        _, factor = damped(system, damping)
        inverse = torch.stack([torch.cholesky_inverse(one).diagonal() for one in factor])
        weight, is_transposed = module.get_parameter("weight"), is_transposed_linear(module)
        rows = least_squares.rows_of(weight, len(system), transposed=is_transposed)
        scale = of_rows.view(len(system), -1, 1) / moments.counts[module]
        found = (rows.square() * scale / inverse[:, None]).flatten()
        bins = (found.log2() - LOWEST).clamp(0, -2 * LOWEST).mul(BINS).long()
        losses[modules[module]] = torch.bincount(bins, minlength=-2 * LOWEST * BINS + 1).cpu()
    return losses
