"""A model of transformers without weights, and the names that a checkpoint has for its weights."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

import torch
from torch import Tensor, nn

from prune_gui.checkpoint import Checkpoint
from prune_gui.errors import ReconstructionError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

log = logging.getLogger(__name__)
SEPARABLE: Final = frozenset({"MergeModulelist", "Concatenate", "Force16BytesAlignment"})


def skeleton(
    checkpoint: Checkpoint,
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase | None]:
    """Return the model of a folder without weights, and its tokenizer if there is one."""
    folder = checkpoint.model_files_folder
    try:
        _hide_broken_torchvision()
        import transformers
    except ImportError as error:
        raise ReconstructionError(
            "Reconstructing a folder needs transformers: pip install 'prune-gui[reconstruct]'."
        ) from error
    try:
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
        name = next(iter(config.architectures or ()), "")
        model_class: Any = getattr(transformers, name, None)
        model_class = model_class or transformers.MODEL_MAPPING[type(config)]
        config._experts_implementation = "eager"  # the one that calls a matrix for each expert
        with _parameters_on_meta():
            model = model_class(config)
            _separate_experts(model)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ReconstructionError(
            "{folder} holds no model that transformers {version} can build: {reason}",
            folder=folder,
            version=transformers.__version__,
            reason=_root_cause(error),
        ) from error
    tokenizer_file = folder / "tokenizer.json"
    tokenizer_class: Any = transformers.PreTrainedTokenizerFast
    try:
        if tokenizer_file.exists():  # the class that a model names may need more tokens than it has
            tokenizer = tokenizer_class(tokenizer_file=str(tokenizer_file))
        else:
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # noqa: BLE001 - tokenizers raise nothing more specific
        log.info("%s has no tokenizer that can be used: %s", folder, error)
        tokenizer = None
    return model.eval(), tokenizer


def _hide_broken_torchvision() -> None:
    """Let transformers do without torchvision if it was built for another torch.

    Otherwise, the import of it would fail, and with it that of models that do not need it.
    """
    try:
        import_module("torchvision")
    except ImportError:
        pass  # it is not installed
    except (RuntimeError, OSError) as error:
        log.info("torchvision cannot be loaded, and is not used: %s", error)
        sys.modules["torchvision"] = None  # type: ignore[assignment]  # documented by importlib


def _root_cause(error: BaseException) -> BaseException:
    return error if error.__cause__ is None else _root_cause(error.__cause__)


@contextmanager
def _parameters_on_meta() -> Iterator[None]:
    """Let modules made within the block have parameters without values, but real buffers."""
    register = nn.Module.register_parameter

    def on_meta(module: nn.Module, name: str, param: nn.Parameter | None) -> None:
        if param is not None:
            param = nn.Parameter(param.to("meta"), requires_grad=False)
        register(module, name, param)

    with patch.object(nn.Module, "register_parameter", on_meta):
        yield


def stored_names(model: PreTrainedModel, checkpoint: Checkpoint) -> dict[str, str]:
    """Return the names in a checkpoint of parameters and buffers, by those in the model.

    A checkpoint of a model without its head, or of an older version of transformers, has others.
    """
    state = model.state_dict(keep_vars=True).keys()
    base = f"{model.base_model_prefix}."
    renamings = [one for one in _conversions(model) if not hasattr(one, "operations")]
    names: dict[str, str] = {}
    for info in checkpoint.tensors.values():
        for stored in (info.name, *info.aliases):
            renamed = stored
            for renaming in renamings:
                renamed, _ = renaming.rename_source_key(renamed)
            for one in (stored, renamed):
                for name in (one, one.removeprefix(base), base + one):
                    if name in state:
                        names.setdefault(name, info.name)
    for name, source in getattr(model, "all_tied_weights_keys", {}).items():
        if name not in names and source in names:
            names[name] = names[source]
    return names


def initialize_others(model: PreTrainedModel, known: Sequence[str], device: torch.device) -> None:
    """Give parameters that are in no checkpoint, such as sinusoids, their initial values.

    Args:
        known: names of parameters that have values, and of modules that will.
    """
    inside = tuple(f"{name}." for name in known)
    for path, module in model.named_modules():
        names = [name for name, _ in module.named_parameters(path, recurse=False)]
        if names and not any(name in known or name.startswith(inside) for name in names):
            module.to_empty(device=device, recurse=False)
            initialize: Callable[[nn.Module], None] = model._init_weights
            initialize(module)
            module.requires_grad_(False)


def _conversions(model: PreTrainedModel) -> list[Any]:
    """Return how transformers changes the names and tensors of a checkpoint of this model."""
    try:
        from transformers.conversion_mapping import get_model_conversion_mapping
    except ImportError:  # it is older than 5, and changes none
        return []
    return get_model_conversion_mapping(model)


class _Experts:
    """Matrices of the experts of a mixture, in place of a tensor (experts, rows, columns)."""

    def __init__(self, layers: Sequence[Sequence[nn.Module]]) -> None:
        self._layers = layers

    def __getitem__(self, number: Tensor | int) -> _Matrix:
        return _Matrix(self._layers[int(number)])


class _Matrix:
    """The weight of layers with the same inputs, one below the other, for `torch` to multiply."""

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        self.layers = layers

    @classmethod
    def __torch_function__(
        cls, function: object, types: object, args: tuple[Any, ...], kwargs: object = None
    ) -> object:
        """Call the layers, for `torch.nn.functional.linear`."""
        if function is not nn.functional.linear or len(args) != 2 or kwargs:
            return NotImplemented
        inputs, matrix = args
        return torch.cat([layer(inputs) for layer in matrix.layers], -1)


def _separate_experts(model: PreTrainedModel) -> None:
    """Give each expert layers of its own where a checkpoint has tensors for each.

    From version 5 on, transformers stacks them when it loads, which hides what each expert reads.
    """
    for conversion in _conversions(model):
        steps = [type(step).__name__ for step in getattr(conversion, "operations", ())]
        if steps[:1] != ["MergeModulelist"] or not {
            "Concatenate",
            "Force16BytesAlignment",
        }.issuperset(steps[1:]):
            continue
        [target] = conversion.target_patterns
        keys = [source.split(".")[-2] for source in conversion.source_patterns]
        for path, module in list(model.named_modules()):
            for name, stacked in list(module.named_parameters(recurse=False)):
                if not f"{path}.{name}".endswith(target):
                    continue
                experts, rows, columns = stacked.shape
                layers = []
                for number in range(experts):
                    expert = module._modules.setdefault(str(number), nn.Module())
                    for key in keys:
                        expert.add_module(key, nn.Linear(columns, rows // len(keys), bias=False))
                    layers.append([expert.get_submodule(key) for key in keys])
                delattr(module, name)
                vars(module)[name] = _Experts(layers)
