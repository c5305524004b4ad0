"""Every family of transformers is reconstructed from its folder, list of blocks after list."""

from __future__ import annotations

import inspect
import json
import runpy
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file
from written_files import tensors_in

from prune_gui.cli.program import cli

pytestmark = [
    pytest.mark.slow,  # transformers is slow to import
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning"),
]
TOKENS, LENGTH, IMAGE = 64, 12, 16
LLAMA = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": TOKENS,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GEMMA = {**LLAMA, "head_dim": 8}
BERT = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": TOKENS,
    "pad_token_id": 0,
}
VIT = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": IMAGE,
    "patch_size": 4,
}
BART = {
    "vocab_size": TOKENS,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": 2,
}
MARKS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
WHISPER = {**BART, "num_mel_bins": 8, "max_source_positions": 16, "max_target_positions": 32}
IDS, IMAGES, SOUND, BOTH, PAIR = "ids", "images", "sound", "both", "pair"
FAMILIES = {
    "gpt2": (
        "GPT2LMHeadModel",
        {"vocab_size": TOKENS, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32, **MARKS},
        IDS,
    ),
    "gpt_neo": (
        "GPTNeoForCausalLM",
        {
            "vocab_size": TOKENS,
            "hidden_size": 32,
            "num_layers": 2,
            "attention_types": [[["global", "local"], 1]],
            "num_heads": 4,
            "max_position_embeddings": 32,
            **MARKS,
        },
        IDS,
    ),
    "gptj": (
        "GPTJForCausalLM",
        {
            "vocab_size": TOKENS,
            "n_embd": 32,
            "n_layer": 2,
            "n_head": 4,
            "n_positions": 32,
            "rotary_dim": 4,
            **MARKS,
        },
        IDS,
    ),
    "gpt_neox": ("GPTNeoXForCausalLM", {**BERT, "bos_token_id": 1, "eos_token_id": 2}, IDS),
    "opt": (
        "OPTForCausalLM",
        {
            "vocab_size": TOKENS,
            "hidden_size": 32,
            "ffn_dim": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "max_position_embeddings": 32,
            "word_embed_proj_dim": 32,
            **MARKS,
        },
        IDS,
    ),
    "llama": ("LlamaForCausalLM", LLAMA, IDS),
    "mistral": ("MistralForCausalLM", LLAMA, IDS),
    "qwen2": ("Qwen2ForCausalLM", LLAMA, IDS),
    "qwen3": ("Qwen3ForCausalLM", {**LLAMA, "head_dim": 8}, IDS),
    "gemma": ("GemmaForCausalLM", GEMMA, IDS),
    "gemma2": ("Gemma2ForCausalLM", GEMMA, IDS),
    "gemma3": ("Gemma3ForCausalLM", GEMMA, IDS),
    "phi": ("PhiForCausalLM", LLAMA, IDS),
    "phi3": ("Phi3ForCausalLM", LLAMA, IDS),
    "stablelm": ("StableLmForCausalLM", LLAMA, IDS),
    "olmo2": ("Olmo2ForCausalLM", LLAMA, IDS),
    "cohere": ("CohereForCausalLM", LLAMA, IDS),
    "granite": ("GraniteForCausalLM", LLAMA, IDS),
    "smollm3": ("SmolLM3ForCausalLM", LLAMA, IDS),
    "falcon": ("FalconForCausalLM", {**BERT, "bos_token_id": 1, "eos_token_id": 2}, IDS),
    "bloom": (
        "BloomForCausalLM",
        {"vocab_size": TOKENS, "hidden_size": 32, "n_layer": 2, "n_head": 4, **MARKS},
        IDS,
    ),
    "mixtral": (
        "MixtralForCausalLM",
        {**LLAMA, "num_local_experts": 4, "num_experts_per_tok": 2},
        IDS,
    ),
    "qwen3_moe": (
        "Qwen3MoeForCausalLM",
        {
            **LLAMA,
            "head_dim": 8,
            "moe_intermediate_size": 24,
            "num_experts": 4,
            "num_experts_per_tok": 2,
        },
        IDS,
    ),
    "mamba": (
        "MambaForCausalLM",
        {"vocab_size": TOKENS, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4, **MARKS},
        IDS,
    ),
    "bert": ("BertModel", BERT, IDS),
    "roberta": ("RobertaForMaskedLM", {**BERT, "bos_token_id": 1, "eos_token_id": 2}, IDS),
    "xlm_roberta": ("XLMRobertaModel", {**BERT, "bos_token_id": 1, "eos_token_id": 2}, IDS),
    "mpnet": ("MPNetModel", {**BERT, "bos_token_id": 1, "eos_token_id": 2}, IDS),
    "distilbert": (
        "DistilBertModel",
        {"vocab_size": TOKENS, "dim": 32, "hidden_dim": 48, "n_layers": 2, "n_heads": 4},
        IDS,
    ),
    "albert": ("AlbertModel", {**BERT, "embedding_size": 16}, IDS),
    "electra": ("ElectraModel", {**BERT, "embedding_size": 16}, IDS),
    "deberta": ("DebertaModel", {**BERT, "relative_attention": True, "pos_att_type": ["c2p"]}, IDS),
    "deberta_v2": (
        "DebertaV2Model",
        {**BERT, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
        IDS,
    ),
    "modernbert": (
        "ModernBertModel",
        {**BERT, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2},
        IDS,
    ),
    "esm": (
        "EsmModel",
        {
            **BERT,
            "mask_token_id": 3,
            "position_embedding_type": "rotary",
            "emb_layer_norm_before": False,
        },
        IDS,
    ),
    "vit": ("ViTModel", VIT, IMAGES),
    "deit": ("DeiTModel", VIT, IMAGES),
    "beit": ("BeitModel", VIT, IMAGES),
    "dinov2": ("Dinov2Model", VIT, IMAGES),
    "swin": (
        "SwinModel",
        {
            "image_size": 32,
            "patch_size": 2,
            "embed_dim": 8,
            "depths": [2, 2],
            "num_heads": [2, 2],
            "window_size": 2,
        },
        "large",
    ),
    "convnext": (
        "ConvNextModel",
        {"hidden_sizes": [8, 16], "depths": [2, 2], "num_stages": 2, "patch_size": 2},
        "large",
    ),
    "t5": (
        "T5ForConditionalGeneration",
        {
            "vocab_size": TOKENS,
            "d_model": 32,
            "d_kv": 8,
            "d_ff": 48,
            "num_layers": 2,
            "num_heads": 4,
            "decoder_start_token_id": 0,
            "pad_token_id": 0,
            "eos_token_id": 2,
        },
        IDS,
    ),
    "t5_encoder": (
        "T5EncoderModel",
        {
            "vocab_size": TOKENS,
            "d_model": 32,
            "d_kv": 8,
            "d_ff": 48,
            "num_layers": 2,
            "num_heads": 4,
        },
        IDS,
    ),
    "bart": ("BartForConditionalGeneration", BART, IDS),
    "marian": ("MarianMTModel", BART, IDS),
    "whisper": ("WhisperForConditionalGeneration", WHISPER, SOUND),
    "clip": (
        "CLIPModel",
        {
            "text_config": {
                **BERT,
                "max_position_embeddings": 32,
                "projection_dim": 16,
                "bos_token_id": 1,
                "eos_token_id": 2,
            },
            "vision_config": {**VIT, "projection_dim": 16},
            "projection_dim": 16,
        },
        PAIR,
    ),
    "siglip": (
        "SiglipModel",
        {
            "text_config": {
                **BERT,
                "max_position_embeddings": LENGTH,
                "projection_size": 32,
                "bos_token_id": 1,
                "eos_token_id": 2,
            },
            "vision_config": VIT,
        },
        PAIR,
    ),
    "llava": (
        "LlavaForConditionalGeneration",
        {
            "text_config": {"model_type": "llama", **LLAMA},
            "vision_config": {"model_type": "clip_vision_model", **VIT, "projection_dim": 16},
            "image_token_index": 5,
            "image_seq_length": 16,
        },
        BOTH,
    ),
}
BATCHES = """
import torch

KIND, TOKENS, LENGTH, IMAGE = {kind!r}, {tokens}, {length}, {image}


def batches():
    generator = torch.Generator().manual_seed(0)
    for _ in range(4):
        ids = torch.randint(6, TOKENS, (8, LENGTH), generator=generator)
        pictures = torch.rand(8, 3, IMAGE, IMAGE, generator=generator)
        if KIND == "images":
            yield {{"pixel_values": pictures}}
        elif KIND == "large":
            yield {{"pixel_values": torch.rand(4, 3, 32, 32, generator=generator)}}
        elif KIND == "sound":
            sound = torch.rand(8, 8, 32, generator=generator)
            yield {{"input_features": sound, "decoder_input_ids": ids}}
        elif KIND == "pair":
            yield {{"input_ids": ids, "pixel_values": pictures}}
        else:
            with_images = torch.cat([torch.full((8, 16), 5), ids], 1)
            yield {{"input_ids": with_images, "pixel_values": pictures}}
"""
UNREAD = {"mixtral": 2, "qwen3_moe": 2}  # routers
"""Weights in blocks that no layer reads, so that only their masks count."""
TARGETS = [
    "*.weight",
    *(f"!*{one}*" for one in ("embe", "norm", "Norm", "ln_", "lm_head", "shared")),
    "!*relative_attention_bias*",
    "!*downsampling_layer.0*",
]


def make(name: str, folder: Path) -> type:
    """Write the folder of a small model with weights large enough that blocks matter."""
    import transformers

    class_name, config, _ = FAMILIES[name]
    model_class = getattr(transformers, class_name)
    torch.manual_seed(0)
    model = model_class(model_class.config_class(**config)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.mul_(4)
    model.save_pretrained(folder)
    return model_class


def calibration(name: str, folder: Path) -> Path:
    kind = FAMILIES[name][2]
    if kind == IDS:
        from safetensors.torch import save_file

        path = folder / "tokens.safetensors"
        generator = torch.Generator().manual_seed(0)
        ids = torch.randint(6, TOKENS, (32, LENGTH), generator=generator)
        save_file({"calibration": ids}, path)
        return path
    path = folder / "own.py"
    path.write_text(BATCHES.format(kind=kind, tokens=TOKENS, length=LENGTH, image=IMAGE))
    return path


def run(*arguments: object) -> str:
    result = CliRunner().invoke(cli, [*map(str, arguments)])
    assert result.exit_code == 0, f"{result.output} {result.exception!r}"
    return result.output


def lost(model_class: type, folder: Path, dense: Path, batches: list[dict]) -> float:
    """Return |Y - Y_dense|^2 / |Y_dense|^2 of all outputs of the model of a folder."""
    model, original = (model_class.from_pretrained(one).eval() for one in (folder, dense))
    total = 0.0
    for batch in batches:
        with torch.no_grad():
            outputs, wanted = model(**batch), original(**batch)
        for now, then in zip(outputs.values(), wanted.values(), strict=True):
            if isinstance(now, torch.Tensor) and now.dim():
                assert now.isfinite().all()
                total += float((now - then).square().sum() / then.square().sum())
    return total


def batches_of(data: Path, model_class: type) -> list[dict]:
    if data.suffix == ".py":
        return list(runpy.run_path(str(data))["batches"]())
    ids = load_file(data)["calibration"]
    is_pair = "decoder_input_ids" in inspect.signature(model_class.forward).parameters
    return [{"input_ids": ids, **({"decoder_input_ids": ids} if is_pair else {})}]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_is_reconstructed_from_its_folder(name, tmp_path):
    dense, out, masked = (tmp_path / one for one in ("dense", "out", "masked"))
    model_class = make(name, dense)
    data, recipe = calibration(name, tmp_path), tmp_path / "recipe.yaml"
    targets = ", ".join(f'"{one}"' for one in TARGETS)
    recipe.write_text(
        f"version: 1\nsteps:\n  - {{method: l1_unstructured, amount: 0.5, targets: [{targets}]}}\n"
    )
    output = run(
        "reconstruct", dense, "--recipe", recipe, "--calibration", data, "-o", out, "--json"
    )
    layers = [layer for block in json.loads(output)["blocks"] for layer in block["layers"]]
    pruned = tensors_in(out)
    assert layers
    for layer in layers:
        weight = pruned[layer["name"]]
        assert int((weight != 0).sum()) <= layer["kept"] == weight.numel() - weight.numel() // 2
    solved = [layer["name"] for layer in layers if layer["error"] is not None]
    assert len(solved) >= len(layers) - UNREAD.get(name, 0)
    run("apply", recipe, dense, "-o", masked)
    data = batches_of(data, model_class)
    assert lost(model_class, out, dense, data) < lost(model_class, masked, dense, data)


@pytest.mark.parametrize(
    ("name", "space"),
    [
        ("llama", "ffn"),
        ("llama", "kv_groups"),
        ("gpt2", "ffn"),
        ("gpt2", "heads"),
        ("bert", "heads"),
        ("mixtral", "expert_ffn"),
        ("t5", "ffn"),
    ],
)
def test_coupled_units_are_chosen_and_leave_a_smaller_model(name, space, tmp_path):
    dense, out, masked, small = (tmp_path / one for one in ("dense", "out", "masked", "small"))
    model_class = make(name, dense)
    data, recipe = calibration(name, tmp_path), tmp_path / "recipe.yaml"
    step = f"{{method: coupled, space: {space}, amount: 0.5, targets: ['*']}}"
    recipe.write_text(f"version: 1\nsteps:\n  - {step}\n")
    run("reconstruct", dense, "--recipe", recipe, "--calibration", data, "-o", out)
    run("apply", recipe, dense, "-o", masked)
    pruned, wanted = tensors_in(out), tensors_in(masked)
    assert {name: int((one != 0).sum()) for name, one in pruned.items()} == {
        name: int((one != 0).sum()) for name, one in wanted.items()
    }
    data = batches_of(data, model_class)
    assert lost(model_class, out, dense, data) < lost(model_class, masked, dense, data)
    if space != "heads":  # fewer of them need a smaller hidden size in config.json
        run("compact", out, "-o", small)
        assert lost(model_class, small, out, data) < 1e-6
