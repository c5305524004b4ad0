"""Reconstructing the model of a folder of transformers, with one block in memory at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor

from prune_gui.checkpoint import Checkpoint, open_checkpoint
from prune_gui.checkpoint.write.atomic import check_room
from prune_gui.errors import ReconstructionError
from prune_gui.file_stamps import FileStamps
from prune_gui.memory import address_space_is_limited, map_large_allocations
from prune_gui.monitor import Monitor
from prune_gui.recipe.exporting import output_of, parts_to_write
from prune_gui.recipe.output import OutputOptions, OutputPath
from prune_gui.recipe.recipe import Recipe, own_version
from prune_gui.recipe.resolution import resolve
from prune_gui.reconstruction.amounts import steps_to_change
from prune_gui.reconstruction.block import LayerError
from prune_gui.reconstruction.calibration import LENGTH, SAMPLES, Calibration, read_calibration
from prune_gui.reconstruction.networks import find_blocks
from prune_gui.reconstruction.pretrained import skeleton
from prune_gui.reconstruction.running import (
    BlockError,
    Options,
    Reconstruction,
    memory_in_use,
    reconstruct_blocks,
)
from prune_gui.reconstruction.stored_blocks import COPIES, PlannedLayer, StoredBlocks
from prune_gui.reconstruction.unfinished import UnfinishedRun

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True)
class CalibrationFile:
    """Where calibration data are, and how much of it counts; see `read_calibration`."""

    path: Path
    samples: int = SAMPLES
    length: int = LENGTH


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run will do.

    Attributes:
        model: the class of the model.
        list_name: the names of its lists of blocks.
        blocks: number of blocks.
        finished: how many of them an earlier run has pruned.
        samples, tokens: numbers of sequences, and of positions in all of them.
        memory: bytes in use, about: of the program, blocks, activations and second moments.
        disk: bytes to write: the output, and once more its blocks until it is written.
    """

    model: str
    list_name: str
    blocks: int
    finished: int
    layers: tuple[PlannedLayer, ...]
    samples: int
    tokens: int
    memory: int
    disk: int


@dataclass(frozen=True, slots=True)
class FolderRun:
    """The model of a folder, a recipe, calibration data and an output, all of which are checked.

    Only the files of the checkpoint are open; nothing is computed or written yet.
    """

    checkpoint: Checkpoint
    blocks: StoredBlocks
    data: Calibration
    out: Path
    unfinished: UnfinishedRun
    options: Options
    output: OutputOptions

    @classmethod
    @contextmanager
    def opened(
        cls,
        folder: Path,
        recipe: Recipe,
        calibration: CalibrationFile,
        out: Path,
        *,
        options: Options,
        output: OutputOptions,
        device: torch.device,
    ) -> Iterator[Self]:
        """Open and check what a run needs, for a `with` block.

        Raises:
            ReconstructionError: the folder has no model with blocks, or the calibration data
                cannot be used.
            RecipeError: a step of the recipe cannot be applied.
            CheckpointError: a file cannot be read or written.
        """
        if address_space_is_limited():
            map_large_allocations()
        with open_checkpoint(folder) as checkpoint:
            model, tokenizer = skeleton(checkpoint)
            target = OutputPath.of(checkpoint, out, output)
            if not target.is_folder:
                raise ReconstructionError(
                    "{path} is the name of a file. Name a folder, which gets all files of a model.",
                    path=out,
                )
            lists = find_blocks(model)
            if not lists:
                raise ReconstructionError(
                    "{model} has no list of blocks. Load it in Python, and call "
                    "prune_gui.reconstruct.",
                    model=type(model).__name__,
                )
            resolution = resolve(recipe, checkpoint)
            parts = parts_to_write(resolution, output)
            output_of(resolution, target, output, parts).check()
            data = _read(calibration, model, tokenizer)
            deciding = _deciding(checkpoint, recipe, model.config, data, options, device)
            unfinished = UnfinishedRun(out, deciding)
            blocks = StoredBlocks(model, lists, resolution, options, unfinished, device)
            if options.spread:
                steps_to_change(resolution, blocks)
            check_room(out, blocks.bytes_to_write())
            yield cls(checkpoint, blocks, data, out, unfinished, options, output)

    def plan(self) -> Plan:
        """Return what `run` will do; runs the dense model on the first batch."""
        self.unfinished.check()
        memory = memory_in_use(self.blocks.device)
        network = self.blocks.network(self.data)
        inputs = network.calls(network.lists[0], {}).inputs
        layers = tuple(self.blocks.planned())
        activations = sum(batch.nbytes for batch in inputs)
        return Plan(
            model=self.blocks.class_name,
            list_name=self.blocks.list_names,
            blocks=len(self.blocks),
            finished=self.unfinished.count(),
            layers=layers,
            samples=sum(len(batch) for batch in inputs),
            tokens=sum(batch.shape[:-1].numel() for batch in inputs),
            memory=memory + self.blocks.working_memory(layers) + COPIES * activations,
            disk=self.blocks.bytes_to_write(),
        )

    def run(
        self,
        monitor: Monitor,
        report: Callable[[LayerError | BlockError], object] = lambda _: None,
    ) -> Reconstruction:
        """Prune the model block by block, and write a folder that transformers loads.

        Finished blocks are kept in a folder beside the output until it is written; the same run
        goes on after the last of them, with the same result.

        Raises:
            ReconstructionError: the same output is being written, or has blocks of another run.
            CheckpointError: a file cannot be read or written.
        """
        with self.unfinished.begun():
            with monitor.plan(len(self.blocks)), monitor.in_charge():
                blocks = self.blocks
                if self.options.spread:
                    blocks = blocks.with_amounts(self.data)
                network = blocks.network(self.data)
                result = reconstruct_blocks(blocks, network, self.options, monitor, report)
            blocks.write(self.out, self.output, self.data, result, monitor)
            self.unfinished.remove()
        return result


def _read(
    calibration: CalibrationFile,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase | None,
) -> Calibration:
    config, path = model.config, calibration.path
    text_config = config.get_text_config()
    if path.suffix != ".py" and model.main_input_name != "input_ids":
        raise ReconstructionError(
            "{model} takes {name}, not text. Give a .py file whose function batches() returns its "
            "inputs.",
            model=type(model).__name__,
            name=model.main_input_name,
        )
    decoder_start = config.decoder_start_token_id if config.is_encoder_decoder else None
    positions = getattr(text_config, "max_position_embeddings", None) or calibration.length
    data = read_calibration(
        path,
        tokenizer,
        samples=calibration.samples,
        length=min(calibration.length, positions),
        is_causal=hasattr(model, "lm_head") or model.can_generate(),
        decoder_start=decoder_start,
    )
    tokens = getattr(text_config, "vocab_size", None)
    ids = [batch["input_ids"] for batch in data.batches if "input_ids" in batch]
    if tokens and any(int(one.max()) >= tokens or int(one.min()) < 0 for one in ids):
        raise ReconstructionError(
            "{path} has token ids of another model: this one has {count:,} tokens.",
            path=path,
            count=tokens,
        )
    return data


def _deciding(
    checkpoint: Checkpoint,
    recipe: Recipe,
    config: PreTrainedConfig,
    data: Calibration,
    options: Options,
    device: torch.device,
) -> dict[str, object]:
    """Return what decides the result; see `DECIDING`."""
    files = [path for step in recipe.steps for path in step.method.files.values()]
    batches = hashlib.sha256(data.digest.encode())
    for batch in data.batches:
        for name, value in sorted(batch.items()):
            batches.update(name.encode())
            is_tensor = isinstance(value, Tensor)
            batches.update(repr(value.tolist() if is_tensor else value).encode())
    return {
        "version": own_version(),
        "model": [checkpoint.files_digest().hex(), config.to_json_string()],
        "recipe": [recipe.anchored().to_yaml(), repr(FileStamps.of(map(Path, files)))],
        "calibration": batches.hexdigest(),
        **asdict(options),
        "device": device.type,
    }
