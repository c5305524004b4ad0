"""Checkpoints of given shapes."""

import json
from contextlib import ExitStack

import pytest
import torch
from safetensors.torch import save_file

from prune_gui import open_checkpoint


@pytest.fixture
def checkpoint_of(tmp_path):
    """Return a function that opens a checkpoint with given shapes, beside a config.json."""
    with ExitStack() as opened:

        def open_with(config, shapes, tied=None, integers=()):
            folder = tmp_path / str(len(list(tmp_path.iterdir())))
            folder.mkdir()
            if config is not None:
                (folder / "config.json").write_text(json.dumps(config))
            tensors = {name: torch.ones(shape) for name, shape in shapes.items()}
            tensors |= {name: tensors[name].long() for name in integers}
            tensors |= {alias: tensors[name] for alias, name in (tied or {}).items()}
            path = folder / ("model.pt" if tied else "model.safetensors")
            (torch.save if tied else save_file)(tensors, path)
            return opened.enter_context(open_checkpoint(path))

        yield open_with
