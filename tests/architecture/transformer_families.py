"""Tiny random models of transformer families, with as many optional parts as they have."""

from pathlib import Path
from typing import Any, Final

import yaml

_TABLE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
FAMILIES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    name: (
        family["class"],
        _TABLE["configs"].get(family.get("like"), {}) | family.get("config", {}),
    )
    for name, family in _TABLE["families"].items()
}
"""By name: the class of the model and the changes to the defaults of its config."""
FAMILIES |= {f"{name}-stacked": FAMILIES[name] for name in ("mixtral", "qwen2-moe", "deepseek-v3")}
SPACES: Final = {
    name: _TABLE["families"][name.removesuffix("-stacked")]["spaces"] for name in FAMILIES
}
"""The spaces of each family."""


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
    config, kind = model.config, model.config.model_type
    with_images = hasattr(config, "vision_config") and (tokens is None or kind == "blip")
    if tokens is None:
        tokens = torch.randint(3, 32, (2, 7), generator=generator)
    inputs = {"input_ids": tokens}

    def values(*shape: int) -> Any:
        return torch.randn(2, *shape, generator=generator)

    if with_images:
        inputs["pixel_values"] = values(3, 8, 8)
        if kind in ("llava", "gemma3", "qwen2_vl"):  # an image takes the place of tokens
            tokens[:, : 1 if kind == "qwen2_vl" else 4] = config.image_token_id
        if kind == "qwen2_vl":
            inputs["pixel_values"] = values(4, 96).flatten(0, 1)  # two frames of a patch
            inputs["image_grid_thw"] = torch.tensor([[1, 2, 2]] * 2)
    elif model.main_input_name == "pixel_values":
        size = getattr(config, "image_size", 32)
        inputs = {"pixel_values": values(3, *(size if isinstance(size, list) else (size, size)))}
    elif model.main_input_name == "input_values":
        shape = (config.max_length, config.num_mel_bins) if "spectrogram" in kind else (64,)
        inputs = {"input_values": values(*shape)}
    elif kind == "whisper":
        inputs = {"input_features": values(80, 16), "decoder_input_ids": tokens}
    elif config.is_encoder_decoder:
        inputs["decoder_input_ids"] = tokens.flip(0)
    elif config.to_dict().get("add_cross_attention"):
        inputs["encoder_hidden_states"] = values(5, config.hidden_size)
    with torch.no_grad():
        return model(**inputs)[0]
