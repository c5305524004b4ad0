"""Checkpoints of given shapes."""

import json

import pytest
import torch


@pytest.fixture
def checkpoint_of(on_disk, tmp_path):
    """Return a function that opens a checkpoint with given shapes, beside a config.json."""

    def open_with(config, shapes, tied=None, integers=()):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        if config is not None:
            (folder / "config.json").write_text(json.dumps(config))
        tensors = {name: torch.ones(shape) for name, shape in shapes.items()}
        tensors |= {name: tensors[name].long() for name in integers}
        tensors |= {alias: tensors[name] for alias, name in (tied or {}).items()}
        return on_disk(tensors, f"{folder.name}/model.{'pt' if tied else 'safetensors'}")

    return open_with
