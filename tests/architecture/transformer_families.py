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
_GPT: Final = {"vocab_size": 32, "n_embd": 16, "n_layer": 4, "n_head": 8, "n_positions": 32}
_IMAGE: Final = _BERT | {"image_size": 8, "patch_size": 4}
_TOWERS: Final = {
    "text_config": _TEXT | {"projection_size": 16},
    "vision_config": _IMAGE | {"num_hidden_layers": 3, "intermediate_size": 10},
    "projection_dim": 16,
}

LLAMA: Final = "ffn kv_groups layers hidden tokens"
BERT: Final = "ffn heads layers hidden tokens"
VIT: Final = "ffn heads layers hidden"
CLIP: Final = "ffn heads layers vision_ffn vision_heads vision_layers"
WAV2VEC2: Final = "ffn heads layers"
T5: Final = "ffn heads encoder_layers decoder_layers hidden tokens"
WHISPER: Final = (
    "encoder_ffn decoder_ffn encoder_heads decoder_heads encoder_layers decoder_layers hidden"
)
MOE: Final = "experts expert_ffn kv_groups layers hidden tokens"


def _without_hidden(spaces: str) -> str:
    return spaces.replace(" hidden", "")


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
    "starcoder2": "ffn kv_groups layers tokens",
    "phi": "ffn kv_groups layers tokens",
    "gemma": LLAMA,
    "gemma2": LLAMA,
    "gemma3": "ffn kv_groups layers hidden",
    "phi3": LLAMA,
    "bert": BERT,
    "bert-mlm": BERT,
    "bert-decoder": BERT,
    "roberta": BERT,
    "ernie": BERT,
    "electra": BERT,
    "data2vec": BERT,
    "distilbert": BERT,
    "vit": VIT,
    "deit": VIT,
    "gpt2": BERT,
    "gpt-neox": "ffn heads layers tokens",
    "opt": VIT,
    "wav2vec2": WAV2VEC2,
    "hubert": WAV2VEC2,
    "wavlm": WAV2VEC2,
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
    "deepseek-v2": "experts expert_ffn ffn heads layers",
    "deepseek-v3": "experts expert_ffn ffn heads layers",
    "layoutlmv3": "ffn layers tokens",
    "gpt-oss": "experts expert_ffn kv_groups layers",
    "flex-olmo": _without_hidden(MOE),
    "glm": _without_hidden(LLAMA),
    "apertus": _without_hidden(LLAMA),
    "arcee": _without_hidden(LLAMA),
    "eurobert": LLAMA,
    "stablelm": _without_hidden(LLAMA),
    "llava": _without_hidden(LLAMA),
    "persimmon": "ffn layers tokens",
    "falcon": "ffn layers tokens",
    "gpt-bigcode": "ffn layers tokens",
    "gptj": _without_hidden(BERT),
    "gpt-neo": "ffn heads tokens",
    "bloom": _without_hidden(BERT),
    "mpt": _without_hidden(BERT),
    "xglm": _without_hidden(VIT),
    "biogpt": _without_hidden(VIT),
    "albert": "ffn heads tokens",
    "modernbert": "ffn heads tokens",
    "esm": "ffn heads tokens",
    "longformer": "ffn layers tokens",
    "dinov2": "ffn heads",
    "swinv2": "ffn",
    "clip": CLIP,
    "clip-text": _without_hidden(VIT),
    "siglip": CLIP,
    "siglip-vision": _without_hidden(VIT),
    "m2m100": _without_hidden(WHISPER),
    "umt5": _without_hidden(T5),
    "olmoe": "experts expert_ffn kv_groups layers tokens",
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
    "electra": ("ElectraForPreTraining", _BERT | {"embedding_size": 16}),
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
    "layoutlmv3": (
        "LayoutLMv3Model",
        _BERT | {"visual_embed": False, "coordinate_size": 2, "shape_size": 4},
    ),
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
    "deepseek-v2": (
        "DeepseekV2ForCausalLM",
        _TEXT
        | {"num_key_value_heads": 8, "n_routed_experts": 8, "num_experts_per_tok": 2, "n_group": 1,
           "topk_group": 1, "moe_intermediate_size": 10, "n_shared_experts": 2,
           "first_k_dense_replace": 2, "q_lora_rank": 6, "kv_lora_rank": 6, "qk_nope_head_dim": 4,
           "qk_rope_head_dim": 2, "v_head_dim": 3},
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
    "flex-olmo": ("FlexOlmoForCausalLM", _TEXT | {"num_experts": 6, "num_experts_per_tok": 2}),
    "glm": ("GlmForCausalLM", _TEXT | {"head_dim": 4, "attention_bias": True}),
    "apertus": ("ApertusForCausalLM", _TEXT),
    "arcee": ("ArceeForCausalLM", _TEXT | {"head_dim": 4, "mlp_bias": True}),
    "eurobert": ("EuroBertForMaskedLM", _TEXT),
    "stablelm": ("StableLmForCausalLM", _TEXT | {"use_qkv_bias": True, "rope_parameters": {
        "rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 1.0}}),
    "llava": (
        "LlavaForConditionalGeneration",
        {"text_config": _TEXT | {"model_type": "llama", "vocab_size": 40},
         "vision_config": _IMAGE | {"model_type": "clip_vision_model"}, "image_token_index": 39},
    ),
    "persimmon": ("PersimmonForCausalLM", _TEXT | {"rope_parameters": {
        "rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 1.0}}),
    "falcon": ("FalconForCausalLM", _TEXT | {"ffn_hidden_size": 12, "bias": True}),
    "gpt-bigcode": ("GPTBigCodeForCausalLM", _GPT | {"n_inner": 12}),
    "gptj": ("GPTJForCausalLM", _GPT | {"rotary_dim": 2}),
    "gpt-neo": (
        "GPTNeoForCausalLM",
        _BERT | {"num_layers": 4, "num_heads": 8, "max_position_embeddings": 32, "window_size": 4,
                 "attention_types": [[["global", "local"], 2]]},
    ),
    "bloom": ("BloomForCausalLM", _BERT | {"n_layer": 4, "n_head": 8}),
    "mpt": (
        "MptForCausalLM",
        {"vocab_size": 32, "d_model": 16, "n_layers": 4, "n_heads": 8, "expansion_ratio": 1},
    ),
    "xglm": (
        "XGLMForCausalLM",
        {"vocab_size": 32, "d_model": 16, "ffn_dim": 12, "num_layers": 4, "attention_heads": 8},
    ),
    "biogpt": ("BioGptForCausalLM", _BERT),
    "albert": ("AlbertForMaskedLM", _BERT | {"embedding_size": 10, "num_hidden_groups": 2}),
    "modernbert": ("ModernBertForMaskedLM", _TEXT),
    "esm": ("EsmForMaskedLM", _BERT | {"pad_token_id": 0, "mask_token_id": 2}),
    "longformer": ("LongformerForMaskedLM", _BERT | {"attention_window": [4, 8, 4, 4]}),
    "dinov2": ("Dinov2Model", _IMAGE),
    "swinv2": (
        "Swinv2Model",
        {"image_size": 16, "patch_size": 2, "embed_dim": 8, "depths": [2, 1], "num_heads": [2, 4],
         "window_size": 2, "pretrained_window_sizes": [0, 0]},
    ),
    "clip": ("CLIPModel", _TOWERS),
    "clip-text": ("CLIPTextModel", _TEXT),
    "siglip": ("SiglipModel", _TOWERS),
    "siglip-vision": ("SiglipVisionModel", _IMAGE),
    "m2m100": ("M2M100ForConditionalGeneration", _WHISPER | {"max_position_embeddings": 32}),
    "umt5": (
        "UMT5ForConditionalGeneration",
        {"vocab_size": 32, "d_model": 16, "d_ff": 12, "num_layers": 3, "num_decoder_layers": 4,
         "num_heads": 8, "d_kv": 3},
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
        folder, save_original_format=not family.endswith("-stacked"), max_shard_size=shard_size
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
    if kind in ("clip", "siglip"):
        inputs["pixel_values"] = torch.randn(2, 3, 8, 8, generator=generator)
    elif model.main_input_name == "pixel_values":
        size = model.config.image_size
        inputs = {"pixel_values": torch.randn(2, 3, size, size, generator=generator)}
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
        inputs["encoder_hidden_states"] = torch.randn(
            2, 5, model.config.hidden_size, generator=generator
        )
    with torch.no_grad():
        return model(**inputs)[0]
