"""Names and shapes of checkpoints, for tests of groups."""

from pathlib import Path

from prune_gui.checkpoint.tensor_info import TensorInfo


def blocks(count, tensors, prefix="model.layers"):
    return {f"{prefix}.{i}.{name}": shape for i in range(count) for name, shape in tensors.items()}


class FakeCheckpoint:
    """The names and shapes of a checkpoint that is too large for a test."""

    def __init__(self, model_type, config, shapes):
        self.path = Path("model.safetensors")
        self.model_types = (model_type,) if model_type else ()
        self.hf_config = config
        self.format, self.module_classes = "safetensors", {}
        self.tensors = {name: TensorInfo(name, shape, "bfloat16") for name, shape in shapes.items()}
