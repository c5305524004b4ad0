"""Reconstructing the model of a folder of transformers, with one block in memory at a time."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

from prune_gui.checkpoint import Checkpoint, open_checkpoint
from prune_gui.errors import ReconstructionError
from prune_gui.language import join_items
from prune_gui.monitor import Monitor
from prune_gui.recipe.exporting import write
from prune_gui.recipe.output import OutputOptions, OutputPath
from prune_gui.recipe.recipe import PREFIX, Recipe, own_version
from prune_gui.recipe.resolution import Resolution, resolve
from prune_gui.reconstruction.block import LayerError
from prune_gui.reconstruction.calibration import LENGTH, SAMPLES, Calibration, read_calibration
from prune_gui.reconstruction.networks import BlockList, Network, find_blocks
from prune_gui.reconstruction.patterns import Pattern, pattern_of
from prune_gui.reconstruction.running import (
    BlockError,
    Options,
    Reconstruction,
    reconstruct_blocks,
)
from prune_gui.reconstruction.unfinished import ERRORS_KEY, UnfinishedRun

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CalibrationFile:
    """Where calibration data are, and how much of it counts; see `read_calibration`."""

    path: Path
    samples: int = SAMPLES
    length: int = LENGTH


@dataclass(frozen=True, eq=False)
class _Reconstructed(Resolution):
    """What is written: the values of finished blocks in place of those of the checkpoint."""

    finished: Mapping[str, Checkpoint] = field(default_factory=dict, kw_only=True)

    def values(self, name: str) -> Tensor:
        found = self.finished.get(name)
        return super().values(name) if found is None else found.view(name)

    def is_corrected(self, name: str) -> bool:
        return name in self.finished


def reconstruct_folder(
    folder: Path,
    recipe: Recipe,
    calibration: CalibrationFile,
    out: Path,
    *,
    options: Options,
    output: OutputOptions,
    device: torch.device,
    monitor: Monitor,
    report: Callable[[LayerError | BlockError], object] = lambda _: None,
) -> Reconstruction:
    """Prune the model of a folder block by block, and write a folder that transformers loads.

    Finished blocks are kept in a folder beside `out` until it is written; the same call goes on
    after the last of them, with the same result.

    Raises:
        ReconstructionError: the folder has no model with one list of blocks, or the calibration
            data cannot be used; nothing is pruned.
        RecipeError: a step of the recipe cannot be applied.
        CheckpointError: a file cannot be read or written.
    """
    with open_checkpoint(folder) as checkpoint:
        model, tokenizer = _skeleton(checkpoint)
        OutputPath.of(checkpoint, out, output)  # refuses what cannot be written, before the work
        lists = find_blocks(model)
        if not lists:
            raise ReconstructionError(
                "{model} has no list of blocks. Give modules that run one after another as blocks "
                "in prune_gui.reconstruct.",
                model=type(model).__name__,
            )
        resolution = resolve(recipe, checkpoint)
        data = read_calibration(
            calibration.path,
            tokenizer,
            samples=calibration.samples,
            length=calibration.length,
            is_causal=hasattr(model, "lm_head") or model.can_generate(),
        )
        _check_ids(data, calibration.path, getattr(model.config, "vocab_size", None))
        run = UnfinishedRun(
            out, _description(checkpoint, recipe, calibration, data, options, device)
        )
        stored = _StoredBlocks(model, lists, resolution, options, run, device)
        run.begin()
        with monitor.plan(len(stored)), monitor.in_charge():
            network = stored.network(data)
            result = reconstruct_blocks(stored, network, options, monitor, report)
        stored.write(out, output, data, result, monitor)
        run.remove()
    return result


def _check_ids(data: Calibration, path: Path, tokens: int | None) -> None:
    ids = (batch["input_ids"] for batch in data.batches if "input_ids" in batch)
    if tokens is not None and max((int(one.max()) for one in ids), default=0) >= tokens:
        raise ReconstructionError(
            "{path} has token ids of another model: this one has {count:,} tokens.",
            path=path,
            count=tokens,
        )


def _description(
    checkpoint: Checkpoint,
    recipe: Recipe,
    calibration: CalibrationFile,
    data: Calibration,
    options: Options,
    device: torch.device,
) -> str:
    return json.dumps(
        {
            "version": own_version(),
            "model": checkpoint.files_digest().hex(),
            "recipe": recipe.anchored().to_yaml(),
            "calibration": [data.digest, calibration.samples, calibration.length],
            "options": asdict(options),
            "device": device.type,
        }
    )


def _skeleton(
    checkpoint: Checkpoint,
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase | None]:
    """Return the model of a folder without weights, and its tokenizer if there is one."""
    folder = checkpoint.model_files_folder
    try:
        import transformers
    except ImportError as error:
        raise ReconstructionError(
            "Reconstructing a folder needs transformers: pip install prune-gui[reconstruct]."
        ) from error
    try:
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
        name = next(iter(config.architectures or ()), "")
        model_class: Any = getattr(transformers, name, None)
        model_class = model_class or transformers.MODEL_MAPPING[type(config)]
        with _parameters_on_meta():
            model = model_class(config)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ReconstructionError(
            "{folder} holds no model that transformers {version} can build: {reason}",
            folder=folder,
            version=transformers.__version__,
            reason=_root_cause(error),
        ) from error
    tokenizer_file = folder / "tokenizer.json"
    tokenizer_class: Any = transformers.PreTrainedTokenizerFast
    try:
        if tokenizer_file.exists():  # the class that a model names may need more tokens than it has
            tokenizer = tokenizer_class(tokenizer_file=str(tokenizer_file))
        else:
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # noqa: BLE001 - tokenizers raise nothing more specific
        log.info("%s has no tokenizer that can be used: %s", folder, error)
        tokenizer = None
    return model.eval(), tokenizer


def _root_cause(error: BaseException) -> BaseException:
    return error if error.__cause__ is None else _root_cause(error.__cause__)


@contextmanager
def _parameters_on_meta() -> Iterator[None]:
    """Let modules made within the block have parameters without values, but real buffers."""
    register = nn.Module.register_parameter

    def on_meta(module: nn.Module, name: str, param: nn.Parameter | None) -> None:
        if param is not None:
            param = nn.Parameter(param.to("meta"), requires_grad=False)
        register(module, name, param)

    with patch.object(nn.Module, "register_parameter", on_meta):
        yield


class _StoredBlocks:
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
        self._model = model
        self._lists = lists
        self._blocks = [block for one in lists for block in one]
        self._paths = [name for one in lists for name in one.names]
        self._resolution = resolution
        self._checkpoint = resolution.checkpoint
        self._options = options
        self._run = run
        self._device = device
        known = dict(self._checkpoint.tensors)
        known |= {alias: info for info in known.values() for alias in info.aliases}
        self._names: dict[str, str] = {}
        base = f"{model.base_model_prefix}."
        for name in model.state_dict(keep_vars=True):
            spellings = (name, name.removeprefix(base), base + name)
            if found := next((one for one in spellings if one in known), None):
                self._names[name] = known[found].name
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
                list=join_items(one.name for one in lists),
            )

    def _full(self, number: int, own: str) -> str:
        return f"{self._paths[number]}.{own}"

    def __len__(self) -> int:
        return len(self._blocks)

    def network(self, data: Calibration) -> Network:
        """Return the network as the calibration data runs through it."""
        for buffer in self._model.buffers():
            buffer.data = buffer.to(self._device)
        batches = [
            {key: _moved(value, self._device) for key, value in batch.items()}
            for batch in data.batches
        ]
        forward = partial(_forward, self._model.config)
        return Network(self._model, self._lists, batches, forward, self._in_memory)

    @contextmanager
    def _in_memory(self, module: nn.Module) -> Iterator[None]:
        """Have the dense weights of a block, or those around all blocks, in memory meanwhile."""
        if module is self._model:
            inside = tuple(f"{path}." for path in self._paths)
            names = {name: one for name, one in self._names.items() if not name.startswith(inside)}
        else:
            names = self._own_names(self._blocks.index(module))
        self._load(module, names, self._checkpoint)
        try:
            yield
        finally:
            _forget(module)

    def finished(self, number: int) -> BlockError | None:
        return self._run.errors(number)

    def dense(self, number: int) -> nn.Module:
        self._load(self._blocks[number], self._own_names(number), self._checkpoint)
        return self._blocks[number]

    def pruned(self, number: int) -> nn.Module:
        block = self.dense(number)
        file = self._run.block(number)
        assert file is not None
        with file:
            names = self._own_names(number)
            self._load(block, {own: one for own, one in names.items() if one in file.tensors}, file)
        return block

    def full_name(self, number: int, name: str) -> str:
        return self._names[self._full(number, name)]

    def patterns(self, number: int) -> Mapping[str, Pattern]:
        return {
            own: pattern
            for own, _ in self._blocks[number].named_parameters()
            if (name := self._names[self._full(number, own)]) in self._resolution.counts
            and (pattern := pattern_of(self._resolution, name, choose=self._options.choose))
        }

    def round(self, block: nn.Module, number: int, masks: Mapping[str, Tensor]) -> None:
        for name, parameter in self._kept(block, number, masks):
            parameter.copy_(parameter.to(self._checkpoint.view(name).dtype))

    def keep(self, block: nn.Module, found: BlockError, masks: Mapping[str, Tensor]) -> None:
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
        _forget(self._blocks[number])

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
            wide = torch.float32 if values.is_floating_point() else values.dtype
            tensors[own] = values.to(self._device, wide, copy=True)
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
