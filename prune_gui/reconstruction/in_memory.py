"""Reconstructing a model in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import chain
from typing import Any

from torch import Tensor, nn

from prune_gui.checkpoint.in_memory import InMemory
from prune_gui.errors import ReconstructionError
from prune_gui.evaluation.calibration.layer_inputs import has_rows, weight_of
from prune_gui.monitor import CancelFlag, Monitor, Progress
from prune_gui.recipe.recipe import Recipe
from prune_gui.recipe.resolution import Resolution, resolve
from prune_gui.reconstruction.amounts import with_amounts
from prune_gui.reconstruction.block import LayerError
from prune_gui.reconstruction.networks import BlockList, Forward, Network, find_blocks, whole
from prune_gui.reconstruction.patterns import Pattern, patterns_in
from prune_gui.reconstruction.row_weights import BATCHES
from prune_gui.reconstruction.running import (
    DAMPING,
    RATE,
    BlockError,
    Options,
    Reconstruction,
    reconstruct_blocks,
)
from prune_gui.reconstruction.solver import ITERATIONS


class _InMemoryBlocks:
    """The blocks of a model whose weights are all in memory."""

    def __init__(
        self,
        model: nn.Module,
        blocks: Sequence[nn.Module],
        resolution: Resolution,
        options: Options,
    ) -> None:
        names = {parameter: name for name, parameter in model.named_parameters()}
        self._blocks = blocks
        self._names = names
        own_names = [
            {own: names[one] for own, one in block.named_parameters() if one in names}
            for block in blocks
        ]
        self._patterns = [patterns_in(resolution, own, choose=options.choose) for own in own_names]

    def __len__(self) -> int:
        return len(self._blocks)

    def __iter__(self) -> Iterator[nn.Module]:
        return iter(self._blocks)

    def finished(self, number: int) -> BlockError | None:
        return None

    def dense(self, number: int) -> nn.Module:
        return self._blocks[number]

    def pruned(self, number: int) -> nn.Module:
        return self._blocks[number]

    def full_name(self, number: int, name: str) -> str:
        return self._names[self._blocks[number].get_parameter(name)]

    def patterns(self, number: int) -> Mapping[str, Pattern]:
        return self._patterns[number]

    def round(self, block: nn.Module, number: int, masks: Mapping[str, Tensor]) -> None:
        """Do nothing: the weights are kept as they are."""

    def keep(self, block: nn.Module, found: BlockError, masks: Mapping[str, Tensor]) -> None:
        """Do nothing: the weights stay in the model."""

    def release(self, number: int) -> None:
        """Do nothing: the weights stay in the model."""


def reconstruct(
    model: nn.Module,
    recipe: Recipe,
    batches: Iterable[Any],
    *,
    blocks: Sequence[nn.Module] | None = None,
    forward: Forward | None = None,
    choose: bool = True,
    damping: float = DAMPING,
    iterations: int = ITERATIONS,
    tuning_steps: int = 0,
    rate: float = RATE,
    seed: int = 0,
    spread: float = 0.0,
    progress: Progress | None = None,
    cancel: CancelFlag | None = None,
    report: Callable[[LayerError | BlockError], object] = lambda _: None,
) -> Reconstruction:
    """Prune a model in place, block by block, so that its outputs change least.

    The layers of a block are pruned in the order in which they run, on the inputs that the pruned
    layers before them give. The recipe says how many weights of each parameter are kept, and in
    which pattern; which ones is chosen together with their values (see
    `prune_gui.reconstruction.solver`), unless the recipe ranks by scores or masks of its own.

    Example::

        recipe = prune_gui.Recipe.load("2of4.yaml")
        prune_gui.reconstruct(model, recipe, batches, forward=lambda model, b: model(**b))

    Args:
        model: the dense model. It runs as it is: call eval() first.
        recipe: steps whose targets are names of parameters of the model.
        batches: inputs for calibration, such as a DataLoader; iterated once.
        blocks: modules that run one after another, each on the output of the one before; None:
            those of its `ModuleList`s and `Sequential`s. Where there are none, or the recipe prunes
            layers outside of them, the model is one block, ``[model]``: each layer then takes
            passes from the beginning, and a copy of the model is in memory.
        forward: runs the model on a batch; by default ``model(batch)``.
        choose: False: take all masks of the recipe as they are.
        damping: share of the mean diagonal of the second moments that is added to it, at least 0.
        iterations: the limit of those that choose a mask.
        tuning_steps: steps of Adam per block after its weights are solved; each takes a batch.
        rate: the highest learning rate of these steps.
        seed: of the order of batches in tuning.
        spread: how much the amounts of layers may differ from that of their step of
            `l1_unstructured`, as a share of the weights, 0.1 for example: more is pruned where the
            output of the block suffers less, and as much of each block. 0: not at all.
        progress: called with (done, total), in blocks.
        cancel: for example a `threading.Event`; pruned blocks stay pruned.
        report: called with the error of each layer, and of each block.

    Returns:
        The errors of all blocks and their layers.

    Raises:
        RecipeError: a step of the recipe cannot be applied to the model.
        ReconstructionError: the model has no list of blocks, does not run them in order, no
            target is in a block, or the amounts cannot differ; nothing is pruned.
    """
    options = Options(choose, damping, iterations, tuning_steps, rate, seed, spread)
    weights = {name: one.detach().cpu() for name, one in model.named_parameters()}
    checkpoint = InMemory(weights)
    resolution = resolve(recipe, checkpoint)
    data, run = list(batches), forward or (lambda model, batch: model(batch))

    def network_of(lists: Sequence[BlockList]) -> tuple[_InMemoryBlocks, Network]:
        blocks = _InMemoryBlocks(model, list(chain.from_iterable(lists)), resolution, options)
        if not any(map(blocks.patterns, range(len(blocks)))):
            raise ReconstructionError(
                "No step of the recipe prunes a parameter of the blocks. Change its targets."
            )
        return blocks, Network(model, lists, data, run, lambda _: nullcontext())

    if blocks is None:
        lists = find_blocks(model)
        inside = set(chain.from_iterable(one.parameters() for one in chain.from_iterable(lists)))
        layers = {weight_of(one) for one in model.modules() if has_rows(one)}
        outside = any(
            one in layers and one not in inside and name in resolution.layers
            for name, one in model.named_parameters()
        )
        try:
            found, network = network_of(whole(model) if outside or not lists else lists)
        except ReconstructionError:
            found, network = network_of(whole(model))
    else:
        paths = {module: name for name, module in model.named_modules()}
        given = BlockList("", tuple(paths.get(one, "") for one in blocks), tuple(blocks))
        found, network = network_of([given])
    monitor = Monitor(progress, cancel)
    if spread:
        with monitor.in_charge():
            few = Network(model, network.lists, data[:BATCHES], run, lambda _: nullcontext())
            recipe = with_amounts(resolution, found, few, damping=damping, spread=spread)
        resolution = resolve(recipe, checkpoint)
        found = _InMemoryBlocks(model, list(found), resolution, options)
    with monitor.plan(len(found)):
        return reconstruct_blocks(found, network, options, monitor, report)
