"""Small checkpoints with the names that the pages use for those of the reader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import torch
from safetensors.torch import save_file
from small_bert import bert_tensors, write_bert

RECIPE: Final = """\
steps:
  - {method: l1_unstructured, targets: ["dims>1"], amount: 0.5}
"""
EVALUATOR: Final = """\
import json, sys
from pathlib import Path

def evaluate(path):
    return {"accuracy": 1 - Path(path).stat().st_size / 1e9}

if __name__ == "__main__":
    print(json.dumps(evaluate(sys.argv[1])))
"""
BERT: Final = {
    "model_type": "bert",
    "architectures": ["BertModel"],
    "hidden_size": 8,
    "hidden_act": "gelu",
    "intermediate_size": 12,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
}
LLAMA: Final = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 16,
    "hidden_size": 8,
    "intermediate_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 2,
}


def write_files(folder: Path) -> None:
    """Write all of them to a folder."""
    (folder / "model").mkdir()
    write_bert(folder / "model")
    (folder / "model" / "config.json").write_text(json.dumps(BERT))
    tensors = bert_tensors()
    save_file(tensors, folder / "model.safetensors")
    ema = {name: tensor / 2 for name, tensor in tensors.items()}
    torch.save({"state_dict": tensors, "ema": ema}, folder / "training.ckpt")
    _write_diffusers(folder / "stable-diffusion")
    _write_llama(folder / "llama")
    (folder / "recipe.yaml").write_text(RECIPE)
    (folder / "eval.py").write_text(EVALUATOR)


def _write_diffusers(folder: Path) -> None:
    names = {"unet": "UNet2DConditionModel", "vae": "AutoencoderKL"}
    for name in names:
        (folder / name).mkdir(parents=True)
        save_file(
            {
                "conv_in.weight": torch.randn(8, 4, 3, 3),
                "conv_in.bias": torch.randn(8),
                "conv_out.weight": torch.randn(4, 8, 3, 3),
                "conv_out.bias": torch.randn(4),
            },
            folder / name / "diffusion_pytorch_model.safetensors",
        )
    index = {name: ["diffusers", of] for name, of in names.items()}
    (folder / "model_index.json").write_text(json.dumps({"_class_name": "Pipeline"} | index))


def _write_llama(folder: Path) -> None:
    """Write a model in two shards."""
    folder.mkdir()
    hidden, ffn, kv = 8, 12, 4
    block = {
        "self_attn.q_proj": (hidden, hidden),
        "self_attn.k_proj": (kv, hidden),
        "self_attn.v_proj": (kv, hidden),
        "self_attn.o_proj": (hidden, hidden),
        "mlp.gate_proj": (ffn, hidden),
        "mlp.up_proj": (ffn, hidden),
        "mlp.down_proj": (hidden, ffn),
        "input_layernorm": (hidden,),
        "post_attention_layernorm": (hidden,),
    }
    shapes = {"model.embed_tokens.weight": (16, hidden), "model.norm.weight": (hidden,)}
    shards: list[dict[str, tuple[int, ...]]] = [shapes, {"lm_head.weight": (16, hidden)}]
    for layer, shard in enumerate(shards):
        shard |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in block.items()}
    weight_map = {}
    for number, shard in enumerate(shards, start=1):
        file = f"model-{number:05}-of-{len(shards):05}.safetensors"
        save_file({name: torch.randn(shape) for name, shape in shard.items()}, folder / file)
        weight_map |= dict.fromkeys(shard, file)
    index = {"metadata": {"total_size": 0}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text(json.dumps(LLAMA))
