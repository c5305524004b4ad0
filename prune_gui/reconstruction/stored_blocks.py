"""The blocks of a model of transformers whose weights are in a checkpoint."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor, nn

from prune_gui.checkpoint import Checkpoint
from prune_gui.errors import ReconstructionError
from prune_gui.language import join_clauses, join_items, tr
from prune_gui.memory import return_freed_memory
from prune_gui.monitor import Monitor
from prune_gui.recipe.exporting import write
from prune_gui.recipe.output import OutputOptions
from prune_gui.recipe.recipe import ERRORS_KEY, PREFIX
from prune_gui.recipe.resolution import Resolution, resolve
from prune_gui.reconstruction.amounts import steps_to_change, with_amounts
from prune_gui.reconstruction.calibration import Calibration
from prune_gui.reconstruction.networks import BlockList, Network
from prune_gui.reconstruction.patterns import Pattern, patterns_in
from prune_gui.reconstruction.pretrained import initialize_others, stored_names
from prune_gui.reconstruction.row_weights import BATCHES
from prune_gui.reconstruction.running import BlockError, Options, Reconstruction
from prune_gui.reconstruction.unfinished import UnfinishedRun

if TYPE_CHECKING:
    from transformers import PreTrainedModel


log = logging.getLogger(__name__)
COPIES: Final = 3
"""How often a block, and what runs through it, are in memory: of the block two copies and the
gradients or moments; of the activations those of the pruned and of the dense blocks before, and the
outputs of the dense block."""
FLOAT_BYTES: Final = 4
SOLVING: Final = 8
"""Matrices of a layer's size, and of its second moments, that solving it takes."""


@dataclass(frozen=True, slots=True)
class PlannedLayer:
    """A parameter that a run will prune.

    Attributes:
        pattern: the step that prunes it, in words.
        is_chosen: whether its mask is chosen in the solve; False if it is that of the recipe.
        pruned, total: numbers of its weights; of those to prune, what the recipe says.
        spread: how much the share to prune may differ from that; see `Options`.
    """

    name: str
    pattern: str
    is_chosen: bool
    pruned: int
    total: int
    spread: float = 0.0


@dataclass(frozen=True, eq=False)
class _Reconstructed(Resolution):
    """What is written: the values of finished blocks in place of those of the checkpoint."""

    finished: Mapping[str, Checkpoint] = field(default_factory=dict, kw_only=True)

    def values(self, name: str) -> Tensor:
        found = self.finished.get(name)
        return super().values(name) if found is None else found.view(name)

    def is_corrected(self, name: str) -> bool:
        return name in self.finished


class StoredBlocks:
    """The blocks of a model whose weights are in a checkpoint; those in use are float32."""

    def __init__(
        self,
        model: PreTrainedModel,
        lists: Sequence[BlockList],
        resolution: Resolution,
        options: Options,
        run: UnfinishedRun,
        device: torch.device,
    ) -> None:
        self.class_name = type(model).__name__
        self.list_names = join_items(one.name for one in lists)
        self._model = model
        self._lists = lists
        self._blocks = [block for one in lists for block in one]
        self._paths = [name for one in lists for name in one.names]
        self._resolution = resolution
        self._checkpoint = resolution.checkpoint
        self._options = options
        self._run = run
        self.device = device
        self._names = stored_names(model, self._checkpoint)
        for number in range(len(self)):
            for own, _ in self._blocks[number].named_parameters():
                if self._full(number, own) not in self._names:
                    raise ReconstructionError(
                        "{folder} has no tensor {name}, which its blocks need. Load and save the "
                        "model with the version of transformers that is installed.",
                        folder=self._checkpoint.path.parent,
                        name=self._full(number, own),
                    )
        if not any(map(self.patterns, range(len(self)))):
            raise ReconstructionError(
                "No step of the recipe prunes a parameter of the blocks in {list}. Change its "
                "targets.",
                list=self.list_names,
            )

    def _full(self, number: int, own: str) -> str:
        return f"{self._paths[number]}.{own}"

    def __len__(self) -> int:
        return len(self._blocks)

    def network(self, data: Calibration) -> Network:
        """Return the network as the calibration data runs through it."""
        for buffer in self._model.buffers():
            buffer.data = buffer.to(self.device)
        batches = [
            {key: _moved(value, self.device) for key, value in batch.items()}
            for batch in data.batches
        ]
        forward = partial(_forward, self._model.config)
        return Network(self._model, self._lists, batches, forward, self._in_memory)

    def with_amounts(self, data: Calibration) -> StoredBlocks:
        """Return the blocks with amounts of their own for layers, see `with_amounts`."""
        few = Calibration(data.batches[:BATCHES], data.digest)
        options = self._options
        recipe = with_amounts(
            self._resolution,
            self,
            self.network(few),
            damping=options.damping,
            spread=options.spread,
        )
        resolution = resolve(recipe, self._checkpoint)
        return StoredBlocks(self._model, self._lists, resolution, options, self._run, self.device)

    @contextmanager
    def _in_memory(self, module: nn.Module) -> Iterator[None]:
        """Have the dense weights of a block, or those around all blocks, in memory meanwhile."""
        if module is self._model:
            inside = tuple(f"{path}." for path in self._paths)
            names = {name: one for name, one in self._names.items() if not name.startswith(inside)}
        else:
            names = self._own_names(self._blocks.index(module))
        self._load(module, names, self._checkpoint)
        if module is self._model:
            initialize_others(self._model, [*names, *self._paths], self.device)
        try:
            yield
        finally:
            _forget(module)

    def planned(self) -> Iterator[PlannedLayer]:
        """Yield what is pruned in each block."""
        steps = self._resolution.recipe.steps
        spread = self._options.spread
        changed = steps_to_change(self._resolution, self).values() if spread else ()
        differing = {name for names in changed for name in names}
        for number in range(len(self)):
            patterns = self.patterns(number)
            open_units = {id(one.read.units) for one in patterns.values() if one.read}
            for own, pattern in patterns.items():
                name = self.full_name(number, own)
                methods = [steps[one.step - 1].method for one in self._resolution.layers[name]]
                texts = (
                    join_clauses((tr(method.title), method.options_text())) for method in methods
                )
                is_chosen = pattern.choose is not None or any(
                    id(one.units) in open_units for one in pattern.made
                )
                counts = self._resolution.counts[name]
                own_spread = spread if name in differing else 0.0
                yield PlannedLayer(name, "; ".join(texts), is_chosen, *counts, own_spread)

    def working_memory(self, layers: Iterable[PlannedLayer]) -> int:
        """Return the bytes that the largest block takes, with what solving a layer takes."""
        sizes = [sum(one.numel() for one in block.parameters()) for block in self._blocks]
        shapes = [self._checkpoint.tensors[layer.name].shape for layer in layers]
        solving = max(max(shape) ** 2 + shape[0] * max(shape) for shape in shapes)
        return FLOAT_BYTES * (COPIES * max(sizes) + SOLVING * solving)

    def bytes_to_write(self) -> int:
        """Return the bytes of the output, and of the files of blocks that are not finished."""
        tensors, layers = self._checkpoint.tensors, self._resolution.layers
        kept = (
            tensors[name].nbytes
            for number in range(self._run.count(), len(self))
            for name in self._own_names(number).values()
            if name in layers or self._options.tuning_steps
        )
        return sum(info.nbytes for info in tensors.values()) + sum(kept)

    def finished(self, number: int) -> BlockError | None:
        """Do as `Blocks.finished`."""
        return self._run.errors(number)

    def dense(self, number: int) -> nn.Module:
        """Do as `Blocks.dense`."""
        self._load(self._blocks[number], self._own_names(number), self._checkpoint)
        return self._blocks[number]

    def pruned(self, number: int) -> nn.Module:
        """Do as `Blocks.pruned`."""
        block = self.dense(number)
        file = self._run.block(number)
        assert file is not None
        with file:
            names = self._own_names(number)
            self._load(block, {own: one for own, one in names.items() if one in file.tensors}, file)
        return block

    def full_name(self, number: int, name: str) -> str:
        """Do as `Blocks.full_name`."""
        return self._names[self._full(number, name)]

    def patterns(self, number: int) -> Mapping[str, Pattern]:
        """Do as `Blocks.patterns`."""
        names = {
            own: self._names[self._full(number, own)]
            for own, _ in self._blocks[number].named_parameters()
        }
        return patterns_in(self._resolution, names, choose=self._options.choose)

    def round(self, block: nn.Module, number: int, masks: Mapping[str, Tensor]) -> None:
        """Do as `Blocks.round`."""
        for name, parameter in self._kept(block, number, masks):
            parameter.copy_(parameter.to(self._checkpoint.view(name).dtype))

    def keep(self, block: nn.Module, found: BlockError, masks: Mapping[str, Tensor]) -> None:
        """Do as `Blocks.keep`."""
        tensors = {
            name: parameter.detach().to(self._checkpoint.view(name).dtype)
            for name, parameter in self._kept(block, found.number, masks)
        }
        self._run.write(found, tensors)

    def _kept(
        self, block: nn.Module, number: int, masks: Mapping[str, Tensor]
    ) -> list[tuple[str, nn.Parameter]]:
        names = self._own_names(number)
        return [
            (names[own], parameter)
            for own, parameter in block.named_parameters()
            if own in masks or self._options.tuning_steps
        ]

    def release(self, number: int) -> None:
        """Do as `Blocks.release`."""
        _forget(self._blocks[number])
        return_freed_memory()

    def _own_names(self, number: int) -> dict[str, str]:
        """Return the names in the checkpoint of the parameters and buffers of a block."""
        start = self._full(number, "")
        return {
            full.removeprefix(start): name
            for full, name in self._names.items()
            if full.startswith(start)
        }

    def _load(self, module: nn.Module, names: Mapping[str, str], source: Checkpoint) -> None:
        tensors = {}
        for own, name in names.items():
            values = source.read_values(name)
            moved = values.to(self.device)  # before it is widened: as it is stored, it is smaller
            wide = torch.float32 if values.is_floating_point() else values.dtype
            tensors[own] = moved.to(wide, copy=moved is values)
        module.load_state_dict(tensors, strict=False, assign=True)
        module.requires_grad_(False)

    def write(
        self,
        out: Path,
        output: OutputOptions,
        data: Calibration,
        result: Reconstruction,
        monitor: Monitor,
    ) -> None:
        """Write the folder, with the values of the finished blocks."""
        files = [self._run.block(number) for number in range(len(self))]
        finished = {name: file for file in files if file is not None for name in file.tensors}
        known = {
            one.name: getattr(self._resolution, one.name) for one in fields(Resolution) if one.init
        }
        layers = {**known.pop("layers"), **dict.fromkeys(finished, ())}
        provenance = {
            PREFIX + "calibration": f"sha256:{data.digest}",
            ERRORS_KEY: json.dumps([asdict(block) for block in result.blocks]),
        }
        reconstructed = _Reconstructed(
            **{**known, "provenance": provenance}, layers=layers, finished=finished
        )
        try:
            write(reconstructed, out, output, monitor)
        finally:
            for file in files:
                if file is not None:
                    file.close()


def _forward(config: object, model: nn.Module, batch: Mapping[str, Any]) -> object:
    return model(**batch, **({"use_cache": False} if hasattr(config, "use_cache") else {}))


def _forget(module: nn.Module) -> None:
    """Replace all parameters of a module by ones without values."""
    empty = {name: one.to("meta") for name, one in module.named_parameters()}
    module.load_state_dict(empty, strict=False, assign=True)


def _moved(value: object, device: torch.device) -> object:
    return value.to(device) if isinstance(value, Tensor) else value
