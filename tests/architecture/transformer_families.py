"""Tiny random models of transformer families, with as many optional parts as they have."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

_TEXT: Final = {
    "vocab_size": 32,
    "hidden_size": 16,
    "intermediate_size": 12,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_BERT: Final = {key: _TEXT[key] for key in list(_TEXT)[:5]}
_TYPES: Final = ["sliding_attention", "full_attention", "full_attention", "sliding_attention"]
_SPEECH: Final = _BERT | {
    "conv_dim": [8, 8],
    "conv_kernel": [4, 4],
    "conv_stride": [2, 2],
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
}
_WHISPER: Final = {
    "vocab_size": 32,
    "d_model": 16,
    "encoder_layers": 3,
    "decoder_layers": 4,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 8,
    "encoder_ffn_dim": 12,
    "decoder_ffn_dim": 10,
    "max_source_positions": 8,
    "max_target_positions": 8,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}

LLAMA: Final = "ffn kv_groups layers tokens"
BERT: Final = "ffn heads layers tokens"
VIT: Final = "ffn heads layers"
T5: Final = "ffn heads encoder_layers decoder_layers tokens"
WHISPER: Final = "encoder_ffn decoder_ffn encoder_heads decoder_heads encoder_layers decoder_layers"
MOE: Final = "experts expert_ffn kv_groups layers tokens"
SPACES: Final = {
    "llama": LLAMA,
    "llama-base": LLAMA,
    "mistral": LLAMA,
    "smollm3": LLAMA,
    "qwen2": LLAMA,
    "qwen3": LLAMA,
    "olmo2": LLAMA,
    "olmo": LLAMA,
    "ministral": LLAMA,
    "ministral3": LLAMA,
    "granite": LLAMA,
    "seed-oss": LLAMA,
    "cohere": LLAMA,
    "cohere2": LLAMA,
    "exaone4": LLAMA,
    "hunyuan": LLAMA,
    "ernie4.5": LLAMA,
    "starcoder2": LLAMA,
    "phi": LLAMA,
    "gemma": LLAMA,
    "gemma2": LLAMA,
    "gemma3": "ffn kv_groups layers",
    "phi3": LLAMA,
    "bert": BERT,
    "bert-mlm": BERT,
    "bert-decoder": BERT,
    "roberta": BERT,
    "ernie": BERT,
    "data2vec": BERT,
    "distilbert": BERT,
    "vit": VIT,
    "deit": VIT,
    "gpt2": BERT,
    "gpt-neox": BERT,
    "opt": VIT,
    "wav2vec2": VIT,
    "hubert": VIT,
    "wavlm": VIT,
    "deberta-v2": "ffn layers tokens",
    "deberta": "ffn layers tokens",
    "mpnet": "ffn layers tokens",
    "convbert": "ffn layers tokens",
    "t5": T5,
    "t5-gated": T5,
    "whisper": WHISPER,
    "bart": WHISPER,
    "mixtral": MOE,
    "qwen2-moe": f"{MOE} ffn shared_ffn",
    "qwen3-moe": f"{MOE} ffn",
    "deepseek-v3": "experts expert_ffn ffn heads layers",
    "gpt-oss": "experts expert_ffn kv_groups layers",
    "olmoe": MOE,
}
"""The spaces of each family."""
FAMILIES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "llama": ("LlamaForCausalLM", _TEXT | {"attention_bias": True, "mlp_bias": True}),
    "llama-base": ("LlamaModel", _TEXT | {"head_dim": 6}),
    "mistral": ("MistralForCausalLM", _TEXT),
    "smollm3": ("SmolLM3ForCausalLM", _TEXT | {"no_rope_layers": [1, 0, 0, 1]}),
    "qwen2": (
        "Qwen2ForCausalLM",
        _TEXT | {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 2},
    ),
    "qwen3": ("Qwen3ForCausalLM", _TEXT | {"head_dim": 4}),
    "olmo2": ("Olmo2ForCausalLM", _TEXT),
    "olmo": ("OlmoForCausalLM", _TEXT),
    "ministral": ("MinistralForCausalLM", _TEXT | {"head_dim": 4}),
    "ministral3": ("Ministral3ForCausalLM", _TEXT),
    "granite": ("GraniteForCausalLM", _TEXT),
    "seed-oss": ("SeedOssForCausalLM", _TEXT | {"head_dim": 4}),
    "cohere": ("CohereForCausalLM", _TEXT),
    "cohere2": ("Cohere2ForCausalLM", _TEXT),
    "exaone4": ("Exaone4ForCausalLM", _TEXT),
    "hunyuan": ("HunYuanDenseV1ForCausalLM", _TEXT | {"head_dim": 4}),
    "ernie4.5": ("Ernie4_5ForCausalLM", _TEXT | {"head_dim": 4}),
    "starcoder2": ("Starcoder2ForCausalLM", _TEXT),
    "phi": ("PhiForCausalLM", _TEXT),
    "gemma": ("GemmaForCausalLM", _TEXT | {"head_dim": 4}),
    "gemma2": ("Gemma2ForCausalLM", _TEXT | {"head_dim": 4, "layer_types": _TYPES}),
    "gemma3": ("Gemma3ForCausalLM", _TEXT | {"head_dim": 4, "layer_types": _TYPES}),
    "phi3": ("Phi3ForCausalLM", _TEXT),
    "bert": ("BertModel", _BERT),
    "bert-mlm": ("BertForMaskedLM", _BERT),
    "bert-decoder": ("BertModel", _BERT | {"is_decoder": True, "add_cross_attention": True}),
    "roberta": ("RobertaForSequenceClassification", _BERT),
    "ernie": ("ErnieModel", _BERT),
    "data2vec": ("Data2VecTextModel", _BERT),
    "distilbert": (
        "DistilBertModel",
        {"vocab_size": 32, "dim": 16, "hidden_dim": 12, "n_layers": 4, "n_heads": 8},
    ),
    "vit": ("ViTForImageClassification", _BERT | {"image_size": 8, "patch_size": 4}),
    "deit": ("DeiTModel", _BERT | {"image_size": 8, "patch_size": 4}),
    "gpt2": (
        "GPT2LMHeadModel",
        {"vocab_size": 32, "n_embd": 16, "n_layer": 4, "n_head": 8, "n_positions": 32},
    ),
    "gpt-neox": ("GPTNeoXForCausalLM", _BERT | {"rotary_pct": 1.0}),
    "opt": (
        "OPTForCausalLM",
        _BERT | {"ffn_dim": 12, "word_embed_proj_dim": 16, "max_position_embeddings": 32},
    ),
    "wav2vec2": ("Wav2Vec2Model", _SPEECH),
    "hubert": ("HubertModel", _SPEECH),
    "wavlm": ("WavLMModel", _SPEECH),
    "deberta-v2": ("DebertaV2Model", _BERT | {"relative_attention": True}),
    "deberta": ("DebertaModel", _BERT),
    "mpnet": ("MPNetModel", _BERT),
    "convbert": ("ConvBertModel", _BERT | {"head_ratio": 2, "embedding_size": 16}),
    "t5": (
        "T5ForConditionalGeneration",
        {"vocab_size": 32, "d_model": 16, "d_ff": 12, "num_layers": 3, "num_decoder_layers": 4,
         "num_heads": 8, "d_kv": 3},
    ),
    "t5-gated": (
        "T5ForConditionalGeneration",
        {"vocab_size": 32, "d_model": 16, "d_ff": 12, "num_layers": 2, "num_heads": 4, "d_kv": 4,
         "feed_forward_proj": "gated-gelu"},
    ),
    "whisper": ("WhisperForConditionalGeneration", _WHISPER),
    "bart": ("BartForConditionalGeneration", _WHISPER | {"max_position_embeddings": 32}),
    "mixtral": (
        "MixtralForCausalLM", _TEXT | {"num_local_experts": 6, "num_experts_per_tok": 2},
    ),
    "qwen2-moe": (
        "Qwen2MoeForCausalLM",
        _TEXT
        | {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 10,
           "shared_expert_intermediate_size": 14, "mlp_only_layers": [0, 2]},
    ),
    "qwen3-moe": (
        "Qwen3MoeForCausalLM",
        _TEXT
        | {"head_dim": 4, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 10,
           "mlp_only_layers": [1]},
    ),
    "deepseek-v3": (
        "DeepseekV3ForCausalLM",
        _TEXT
        | {"num_key_value_heads": 8, "n_routed_experts": 8, "num_experts_per_tok": 2, "n_group": 2,
           "topk_group": 1, "moe_intermediate_size": 10, "n_shared_experts": 2,
           "first_k_dense_replace": 2, "q_lora_rank": 6, "kv_lora_rank": 5, "qk_nope_head_dim": 4,
           "qk_rope_head_dim": 2, "v_head_dim": 3},
    ),
    "olmoe": ("OlmoeForCausalLM", _TEXT | {"num_experts": 6, "num_experts_per_tok": 2}),
    "gpt-oss": (
        "GptOssForCausalLM",
        _TEXT | {"head_dim": 4, "num_local_experts": 6, "num_experts_per_tok": 2},
    ),
}  # fmt: skip
"""By name: the class of the model and the changes to the defaults of its config."""

FAMILIES |= {f"{name}-stacked": FAMILIES[name] for name in ("mixtral", "qwen2-moe", "deepseek-v3")}
SPACES |= {name: SPACES[name.removesuffix("-stacked")] for name in FAMILIES}


def save_model(
    family: str, folder: Path, *, dtype: str = "float32", shard_size: str = "1GB", **config: Any
) -> None:
    """Write a model with random values, also where the initial values are constant.

    Args:
        family: the name of the family.
        folder: the folder to write.
        dtype: of all parameters.
        shard_size: the maximum size of a shard.
        config: further changes to the config.
    """
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()  # it leaves a thread
    name, changes = FAMILIES[family]
    model_class = getattr(transformers, name)
    torch.manual_seed(0)
    model = model_class(model_class.config_class(**changes | config))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.5)
    # Experts are one tensor in memory, and separate tensors in files unless asked otherwise.
    model.to(getattr(torch, dtype)).save_pretrained(
        folder,
        save_original_format=not family.endswith("-stacked"),
        max_shard_size=shard_size,
    )


def load_model(family: str, folder: Path) -> Any:
    """Load a model; fail if the names or shapes in the file are not those of the model."""
    import transformers

    model, remarks = getattr(transformers, FAMILIES[family][0]).from_pretrained(
        folder,
        output_loading_info=True,
        attn_implementation="eager",
        experts_implementation="eager",  # others need aligned rows
    )
    assert not any(remarks.values()), remarks
    return model.eval()


def outputs(model: Any, tokens: Any = None) -> Any:
    """Return the output of a model for fixed inputs, or for some tokens, (texts, length)."""
    import torch

    generator = torch.Generator().manual_seed(1)
    if tokens is None:
        tokens = torch.randint(3, 32, (2, 7), generator=generator)
    kind = model.config.model_type
    inputs = {"input_ids": tokens}
    if kind in ("vit", "deit"):
        inputs = {"pixel_values": torch.randn(2, 3, 8, 8, generator=generator)}
    elif kind in ("wav2vec2", "hubert", "wavlm"):
        inputs = {"input_values": torch.randn(2, 64, generator=generator)}
    elif kind == "whisper":
        inputs = {
            "input_features": torch.randn(2, 80, 16, generator=generator),
            "decoder_input_ids": tokens,
        }
    elif model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = tokens.flip(0)
    elif model.config.to_dict().get("add_cross_attention"):
        inputs["encoder_hidden_states"] = torch.randn(2, 5, 16, generator=generator)
    with torch.no_grad():
        return model(**inputs)[0]
