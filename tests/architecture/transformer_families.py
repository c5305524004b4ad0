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
