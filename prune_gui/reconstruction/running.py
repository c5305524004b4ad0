"""Reconstructing a network: one block after another, each on what the pruned ones before give."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import psutil
import torch
from torch import Tensor, nn

from prune_gui.errors import ReconstructionError
from prune_gui.monitor import Monitor
from prune_gui.reconstruction.block import BlockData, LayerError, prune_block, run_through
from prune_gui.reconstruction.networks import Network
from prune_gui.reconstruction.patterns import Pattern
from prune_gui.reconstruction.products import fast_products
from prune_gui.reconstruction.solver import ITERATIONS
from prune_gui.reconstruction.tuning import relative_error, tune_block

DAMPING: Final = 0.01
RATE: Final = 4e-4


@dataclass(frozen=True, slots=True)
class Options:
    """How a network is reconstructed.

    Attributes:
        choose: whether masks are chosen in the solve where the recipe ranks absolute weights;
            False for the masks of the recipe.
        damping: see `prune_gui.reconstruction.solver.damped`.
        iterations: the limit of those that choose a mask.
        tuning_steps: steps of Adam per block after the solve; 0 for none.
        rate: the highest learning rate of these.
        seed: of the order of batches in tuning.
        spread: how much the amounts of layers may differ from that of their step, as a share of
            the weights; see `prune_gui.reconstruction.amounts`. 0: not at all.

    Raises:
        ReconstructionError: a number is out of its range.
    """

    choose: bool = True
    damping: float = DAMPING
    iterations: int = ITERATIONS
    tuning_steps: int = 0
    rate: float = RATE
    seed: int = 0
    spread: float = 0.0

    def __post_init__(self) -> None:
        """Check the numbers; a rate of 0 would train nothing."""
        least = {"damping": 0, "iterations": 1, "tuning_steps": 0, "spread": 0}
        for name, smallest in least.items():
            value = getattr(self, name)
            if not smallest <= value < math.inf:
                raise ReconstructionError(
                    "{name} is {value}. Give a finite number of at least {smallest}.",
                    name=name,
                    value=value,
                    smallest=smallest,
                )
        if not 0 < self.rate < math.inf:
            raise ReconstructionError(
                "The learning rate is {value}. Give a finite number above 0.", value=self.rate
            )


@dataclass(frozen=True, slots=True)
class BlockError:
    """What pruning costs a block and all before it: |Y - Y_dense|^2 / |Y_dense|^2.

    Attributes:
        number: of the block, from 0.
        layers: see `LayerError`.
        before, after: the error of its outputs before and after tuning.
    """

    number: int
    layers: tuple[LayerError, ...]
    before: float
    after: float


@dataclass(slots=True)
class Reconstruction:
    """The result: the errors of all blocks, in order."""

    blocks: list[BlockError] = field(default_factory=list)

    @property
    def layers(self) -> list[LayerError]:
        """The errors of all layers, in order."""
        return [layer for block in self.blocks for layer in block.layers]


@dataclass(slots=True)
class Pace:
    """The time that a run will take, from what it reports; blocks of earlier runs do not count."""

    last: float = field(default_factory=time.monotonic)
    _pruned: int = 0
    _seconds: float = 0.0
    _is_pruning: bool = False

    def take(self, found: LayerError | BlockError) -> None:
        """Take what is reported, when it is."""
        if isinstance(found, LayerError):
            self._is_pruning = True
            return
        now = time.monotonic()
        if self._is_pruning:
            self._pruned += 1
            self._seconds += now - self.last
        self._is_pruning, self.last = False, now

    def seconds_left(self, blocks: int) -> float | None:
        """Return how long some more blocks take; None if none was pruned yet."""
        return self._seconds / self._pruned * blocks if self._pruned else None


def memory_in_use(device: torch.device) -> int:
    """Return the bytes that this program has in use there, without mapped files."""
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device)
    found = psutil.Process().memory_info()
    return int(found.rss - getattr(found, "shared", 0))


class Blocks(Protocol):
    """The blocks of a network, wherever their weights are."""

    def __len__(self) -> int: ...

    def finished(self, number: int) -> BlockError | None:
        """Return the errors of a block that an earlier run pruned; None if there is none."""

    def dense(self, number: int) -> nn.Module:
        """Return a block with its dense weights."""

    def pruned(self, number: int) -> nn.Module:
        """Return a block with the weights of an earlier run."""

    def full_name(self, number: int, name: str) -> str:
        """Return the name in the network of a parameter of a block."""

    def patterns(self, number: int) -> Mapping[str, Pattern]:
        """Return the patterns by name of a parameter in a block."""

    def round(self, block: nn.Module, number: int, masks: Mapping[str, Tensor]) -> None:
        """Round the weights that a block has now to those that `keep` keeps."""

    def keep(self, block: nn.Module, found: BlockError, masks: Mapping[str, Tensor]) -> None:
        """Keep the weights that a block has now."""

    def release(self, number: int) -> None:
        """Forget the weights of a block that are kept elsewhere."""


@torch.no_grad()
def reconstruct_blocks(
    blocks: Blocks,
    network: Network,
    options: Options,
    monitor: Monitor,
    report: Callable[[LayerError | BlockError], object],
) -> Reconstruction:
    """Prune all blocks in order, except for those that an earlier run finished.

    Two copies of one block are in memory, and two outputs of a block for all batches.
    """
    result = Reconstruction()
    known: dict[nn.Module, list[Tensor]] = {}
    dense_known: dict[nn.Module, list[Tensor]] = {}
    with monitor.in_charge(), fast_products():
        for one in network.lists:
            calls = dense_calls = network.calls(one, dense_known)
            if known:
                calls = network.calls(one, known)
            pruned, dense = list(calls.inputs), list(dense_calls.inputs)
            calls.inputs.clear()
            dense_calls.inputs.clear()
            for index, module in enumerate(one):
                monitor.advance()
                number = one.first + index
                data = BlockData(pruned, dense, calls.of_block[index], dense_calls.of_block[index])
                block = blocks.dense(number)
                found = blocks.finished(number)
                count = monitor.advance if found is None else monitor.skip
                if found is None:
                    found = _prune(block, number, blocks, data, options, report)
                else:
                    run_through(block, dense, data.dense_calls)
                    run_through(blocks.pruned(number), pruned, data.calls)
                result.blocks.append(found)
                blocks.release(number)
                if module in network.exposed:
                    known[module], dense_known[module] = list(pruned), list(dense)
                report(found)
                count(1)
    return result


def _prune(
    block: nn.Module,
    number: int,
    blocks: Blocks,
    data: BlockData,
    options: Options,
    report: Callable[[LayerError | BlockError], object],
) -> BlockError:
    """Prune a block, and run all data through it."""
    layers: list[LayerError] = []

    def note(layer: LayerError) -> None:
        layer = replace(layer, name=blocks.full_name(number, layer.name))
        layers.append(layer)
        report(layer)

    masks = prune_block(
        block,
        blocks.patterns(number),
        data,
        damping=options.damping,
        iterations=options.iterations,
        report=note,
    )
    before = None
    if options.tuning_steps:
        before = tune_block(
            block,
            masks,
            data.pruned,
            data.dense,
            data.calls,
            steps=options.tuning_steps,
            rate=options.rate,
            seed=options.seed + number,
        )
    blocks.round(block, number, masks)
    run_through(block, data.pruned, data.calls)
    after = relative_error(data.pruned, data.dense)
    found = BlockError(number, tuple(layers), after if before is None else before, after)
    blocks.keep(block, found, masks)
    return found
