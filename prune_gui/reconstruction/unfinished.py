"""The blocks that a run has finished, in a folder beside the output, so that it can be resumed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Final

from torch import Tensor

from prune_gui.checkpoint import Checkpoint, FileOutput, TensorWriter, open_checkpoint
from prune_gui.errors import ReconstructionError
from prune_gui.monitor import Monitor, not_cancelled
from prune_gui.reconstruction.block import LayerError
from prune_gui.reconstruction.running import BlockError

ERRORS_KEY: Final = "prune_gui.reconstruction"
"""Metadata: JSON, of a block in an unfinished run a `BlockError`; of the result all of them."""
RUN_KEY: Final = "prune_gui.run"
"""Metadata of a finished block: what was asked for, which must be the same when going on."""


class UnfinishedRun:
    """A folder with a file for each block that is finished."""

    def __init__(self, out: Path, run: str) -> None:
        """`run` describes all that decides the result."""
        self.folder = out.with_name(f"{out.name}.unfinished")
        self._run = run

    def begin(self) -> None:
        """Make the folder, or check that the run in it is this one."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ReconstructionError(
                "The folder {path} cannot be made: {reason}. Choose another output.",
                path=self.folder,
                reason=error.strerror or error,
            ) from error
        for path in sorted(self.folder.glob("block-*.safetensors"))[:1]:
            with open_checkpoint(path) as block:
                if block.metadata.get(RUN_KEY) != self._run:
                    raise ReconstructionError(
                        "{folder} has blocks of a run with another model, recipe, calibration or "
                        "other options. Repeat that run to go on with it, or remove the folder.",
                        folder=self.folder,
                    )

    def block(self, number: int) -> Checkpoint | None:
        """Open the file of a block; None if it is not finished."""
        path = self._path(number)
        return open_checkpoint(path) if path.exists() else None

    def errors(self, number: int) -> BlockError | None:
        """Return the errors of a block; None if it is not finished."""
        path = self._path(number)
        if not path.exists():
            return None
        with open_checkpoint(path) as block:
            return block_error_of(json.loads(block.metadata[ERRORS_KEY]))

    def write(self, found: BlockError, tensors: Mapping[str, Tensor]) -> None:
        """Write a block; its file is complete or absent, whenever the program ends."""
        writers = [
            TensorWriter(
                name,
                str(tensor.dtype).removeprefix("torch."),
                tuple(tensor.shape),
                partial(_whole, tensor),
            )
            for name, tensor in tensors.items()
        ]
        output = FileOutput(
            path=self._path(found.number), tensors=writers, template=None, overwrite=True
        )
        with not_cancelled():
            output.write({ERRORS_KEY: json.dumps(asdict(found)), RUN_KEY: self._run}, Monitor())

    def remove(self) -> None:
        """Remove the folder, after the output is written."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, number: int) -> Path:
        return self.folder / f"block-{number:05}.safetensors"


def _whole(tensor: Tensor) -> Iterator[Tensor]:
    yield tensor.detach().cpu().contiguous().reshape(-1)


def block_error_of(fields: dict[str, object]) -> BlockError:
    """Return a `BlockError` from its JSON."""
    layers = fields.pop("layers")
    assert isinstance(layers, list)
    return BlockError(**fields, layers=tuple(LayerError(**layer) for layer in layers))  # type: ignore[arg-type]
