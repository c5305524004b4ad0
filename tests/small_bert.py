"""A small BERT: a file with the names of its parameters, and a config.json."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

FFN = 12
HEADS = 4
HIDDEN = 8
LAYERS = 2
LAYER = "encoder.layer.{}."
EMBEDDINGS = "embeddings.positions.weight"


def bert_tensors() -> dict[str, torch.Tensor]:
    """Return random tensors: two layers with 12 feed-forward neurons and 4 heads each."""
    generator = torch.Generator().manual_seed(0)
    sizes = {
        "attention.self.query": (HIDDEN, HIDDEN),
        "attention.self.key": (HIDDEN, HIDDEN),
        "attention.self.value": (HIDDEN, HIDDEN),
        "attention.output.dense": (HIDDEN, HIDDEN),
        "attention.output.LayerNorm": (HIDDEN,),
        "intermediate.dense": (FFN, HIDDEN),
        "output.dense": (HIDDEN, FFN),
        "output.LayerNorm": (HIDDEN,),
    }
    tensors = {EMBEDDINGS: torch.randn(20, 5, generator=generator)}
    for layer in range(LAYERS):
        for name, shape in sizes.items():
            path = LAYER.format(layer) + name
            tensors[path + ".weight"] = torch.randn(shape, generator=generator)
            tensors[path + ".bias"] = torch.randn(shape[0], generator=generator)
    return tensors


def write_bert(folder: Path, **others: torch.Tensor) -> Path:
    """Write the checkpoint, with other tensors, and its config.json; return its path."""
    config = {"model_type": "bert", "num_attention_heads": HEADS, "hidden_size": HIDDEN}
    (folder / "config.json").write_text(json.dumps(config))
    path = folder / "model.safetensors"
    save_file(bert_tensors() | others, path)
    return path
