"""The blocks that a run has finished, in a folder beside the output, so that it can be resumed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout
from torch import Tensor

from prune_gui.checkpoint import Checkpoint, FileOutput, TensorWriter, open_checkpoint
from prune_gui.errors import ReconstructionError
from prune_gui.language import deferred, join_items, tr
from prune_gui.monitor import Monitor, not_cancelled
from prune_gui.recipe.recipe import ERRORS_KEY
from prune_gui.reconstruction.block import LayerError
from prune_gui.reconstruction.running import BlockError

RUN_KEY: Final = "prune_gui.run"
"""Metadata of a finished block: JSON, the values of `DECIDING`."""
DECIDING: Final = {
    "version": deferred("version of the program"),
    "model": deferred("model"),
    "recipe": deferred("recipe"),
    "calibration": deferred("calibration data"),
    "choose": deferred("choice of masks"),
    "damping": deferred("damping"),
    "iterations": deferred("number of iterations"),
    "tuning_steps": deferred("number of training steps"),
    "rate": deferred("learning rate"),
    "seed": deferred("seed"),
    "spread": deferred("spread of amounts"),
    "device": deferred("device"),
}
"""What decides the result, and must be the same when going on."""


class UnfinishedRun:
    """A folder with a file for each block that is finished."""

    def __init__(self, out: Path, deciding: Mapping[str, object]) -> None:
        """`deciding` has the values of `DECIDING`, as JSON has them."""
        self.out = out
        self.folder = out.with_name(f"{out.name}.unfinished")
        self._deciding = deciding

    @contextmanager
    def begun(self) -> Iterator[None]:
        """Make the folder, which no other run can use within the `with` block."""
        lock = FileLock(self.folder / "lock", timeout=0)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except Timeout:
            raise ReconstructionError(
                "Another run is writing {path}. Wait until it ends, or choose another output.",
                path=self.out,
            ) from None
        except OSError as error:
            raise ReconstructionError(
                "The folder {path} cannot be written: {reason}. Choose another output.",
                path=self.folder,
                reason=error.strerror or error,
            ) from error
        try:
            self.check()
            yield
        finally:
            if not self.count():
                self.remove()
            lock.release()

    def check(self) -> None:
        """Check that finished blocks, if there are any, are those of this run."""
        for path in sorted(self.folder.glob("block-*.safetensors"))[:1]:
            with open_checkpoint(path) as block:
                known = json.loads(block.metadata.get(RUN_KEY, "{}"))
            others = [
                tr(DECIDING.get(key, key))
                for key, value in self._deciding.items()
                if known.get(key) != value
            ]
            if others:
                raise ReconstructionError(
                    "{folder} has blocks of another run, which differs in its {list}. Repeat that "
                    "run to go on with it, or remove the folder.",
                    folder=self.folder,
                    list=join_items(others),
                )

    def count(self) -> int:
        """Return how many blocks are finished."""
        return len(list(self.folder.glob("block-*.safetensors")))

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
            output.write(
                {ERRORS_KEY: json.dumps(asdict(found)), RUN_KEY: json.dumps(self._deciding)},
                Monitor(),
            )

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
