"""Calibration data from files: texts, token ids, or batches that a Python file makes."""

from __future__ import annotations

import hashlib
import runpy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import ReconstructionError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SAMPLES: Final = 128
LENGTH: Final = 512
CHECKED_CHARACTERS: Final = 1 << 16
"""Of a text, to see whether the tokenizer knows it."""
BATCH_TOKENS: Final = 1024
"""Tokens that run through a block at once, and that one step of tuning sees."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Batches, and the SHA-256 of the file they come from, as hexadecimal digits.

    Attributes:
        batches: dicts of the arguments of the model.
    """

    batches: list[Mapping[str, Any]]
    digest: str


def read_calibration(
    path: Path,
    tokenizer: PreTrainedTokenizerBase | None,
    *,
    samples: int = SAMPLES,
    length: int = LENGTH,
    is_causal: bool,
    decoder_start: int | None = None,
) -> Calibration:
    """Read calibration data.

    Args:
        path: ``.safetensors``: one integer tensor (samples, length) of token ids, or the one that
            is named "calibration". ``.py``: its function ``batches()`` returns dicts of arguments
            of the model. Any other name: UTF-8 text, of which a causal model gets pieces of equal
            length from all of the file, and other models get each line.
        tokenizer: for text.
        samples: the limit of sequences; of lines, so many times `length` is that of their tokens.
        length: tokens of a piece; the limit of those of a line.
        decoder_start: of a model with an encoder and a decoder, the token that begins what its
            decoder gets: the sequence itself, as when it is trained to repeat it.

    Raises:
        ReconstructionError: the file cannot be read, or holds nothing of use.
    """
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ReconstructionError(
            "{path} cannot be read: {reason}. Choose another file.",
            path=path,
            reason=error.strerror or error,
        ) from error
    if path.suffix == ".py":
        return Calibration(_made_by(path), digest)
    if path.suffix == ".safetensors":
        return Calibration(_batches(list(_token_ids(path)[:samples]), decoder_start), digest)
    if tokenizer is None:
        raise ReconstructionError(
            "{path} is read as text, but the folder of the model has no tokenizer. Give a "
            ".safetensors file of token ids.",
            path=path,
        )
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ReconstructionError(
            "{path} is not UTF-8 text. Give text, a .safetensors file of token ids, or a .py file.",
            path=path,
        ) from error
    _check_words(path, tokenizer, text)
    if is_causal:
        pieces = _pieces(tokenizer(text, verbose=False)["input_ids"], samples, length)
    else:
        lines = [line for line in text.splitlines() if line.strip()]
        encoded = tokenizer(lines, truncation=True, max_length=length) if lines else {}
        sequences = encoded.get("input_ids", ())
        totals = accumulate(map(len, sequences))
        pieces = [
            torch.tensor(ids)
            for ids, total in zip(sequences, totals, strict=True)
            if total <= samples * length
        ]
    if not pieces and is_causal and text.strip():
        raise ReconstructionError(
            "{path} has fewer than {length} tokens. Give a longer text, or shorter samples "
            "(--length).",
            path=path,
            length=length,
        )
    if not pieces:
        raise ReconstructionError(
            "{path} has no text. Give texts like those of the use.", path=path
        )
    return Calibration(_batches(pieces, decoder_start), digest)


def _check_words(path: Path, tokenizer: PreTrainedTokenizerBase, text: str) -> None:
    """Refuse text that is unknown to the tokenizer, which may have been made without its files."""
    model = getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)
    unknown = getattr(model, "unk_token", None) or tokenizer.unk_token
    begin = tokenizer(text[:CHECKED_CHARACTERS], add_special_tokens=False, verbose=False)
    ids = begin["input_ids"]
    if unknown is not None and 2 * ids.count(tokenizer.convert_tokens_to_ids(unknown)) > len(ids):
        raise ReconstructionError(
            "The tokenizer of the model does not know most of {path}. Give other text, or a "
            ".safetensors file of token ids; or add the files of the tokenizer to the folder of "
            "the model (do_lower_case may be wrong in tokenizer_config.json).",
            path=path,
        )


def _pieces(ids: list[int], samples: int, length: int) -> list[Tensor]:
    """Return pieces of equal length at equal distances."""
    count = min(samples, len(ids) // length)
    starts = (number * (len(ids) // count) for number in range(count))
    return [torch.tensor(ids[start : start + length]) for start in starts]


def _batches(sequences: Iterable[Tensor], decoder_start: int | None) -> list[Mapping[str, Any]]:
    """Return batches of sequences of equal length, so that none is padded."""
    batches: list[Mapping[str, Any]] = []
    for length, equal in groupby(sorted(sequences, key=len), key=len):
        stacked = torch.stack(list(equal)).long()
        parts = torch.split(stacked, max(1, BATCH_TOKENS // length))
        batches += [_batch(part, decoder_start) for part in parts]
    return batches


def _batch(ids: Tensor, decoder_start: int | None) -> Mapping[str, Any]:
    if decoder_start is None:
        return {"input_ids": ids}
    begun = torch.cat([torch.full_like(ids[:, :1], decoder_start), ids[:, :-1]], 1)
    return {"input_ids": ids, "decoder_input_ids": begun}


def _token_ids(path: Path) -> Tensor:
    with open_checkpoint(path) as file:
        names = list(file.tensors)
        name = "calibration" if "calibration" in names else names[0] if len(names) == 1 else ""
        ids = file.read(name) if name else torch.empty(0)
    if ids.dim() != 2 or ids.is_floating_point() or not ids.numel():
        raise ReconstructionError(
            "{path} has no tensor of token ids: write one of integers, (samples, length), named "
            "calibration.",
            path=path,
        )
    return ids


def _made_by(path: Path) -> list[Mapping[str, Any]]:
    """Return what `batches` of a Python file of the user returns."""
    try:
        found = runpy.run_path(str(path)).get("batches")
        batches = None if found is None else list(found())
    except (Exception, SystemExit) as error:
        raise ReconstructionError(
            "The file of calibration data raised {type}: {reason}. See {path}.",
            path=path,
            type=type(error).__name__,
            reason=error,
        ) from error
    if batches is None:
        raise ReconstructionError(
            "{path} defines no function batches(). Let it return dicts of the arguments of the "
            "model.",
            path=path,
        )
    if not batches or not all(isinstance(batch, Mapping) for batch in batches):
        raise ReconstructionError(
            "batches() must return at least one dict of the arguments of the model. See {path}.",
            path=path,
        )
    return batches
