"""The beginning of every script that `python_script` writes. It needs torch only."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import prune

parameters: dict[str, tuple[nn.Module, str]] = {}


class L1(prune.BasePruningMethod):
    """Like prune.L1Unstructured; of equal weights the first are pruned, which torch leaves open."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: float) -> None:
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask, with the smallest absolute weights set to 0."""
        mask = default_mask.clone()
        lowest = t.abs().flatten().sort(stable=True).indices[: units(self.amount, t.numel())]
        mask.view(-1)[lowest] = 0
        return mask


class Ln(prune.BasePruningMethod):
    """Like prune.LnStructured; of equal channels the first are pruned; norms are in float64."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, n: float, dim: int) -> None:
        self.amount, self.n, self.dim = amount, n, dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask, with the channels of the smallest norms set to 0."""
        channels = t.double().movedim(self.dim, 0).flatten(1)
        norms = torch.linalg.vector_norm(channels, self.n, dim=1)
        mask = default_mask.clone()
        lowest = norms.sort(stable=True).indices[: units(self.amount, len(norms))]
        mask.index_fill_(self.dim, lowest, 0)
        return mask


def units(amount: float, size: int) -> int:
    """Return the number of units to prune, from a whole number or a share of `size`."""
    return amount if isinstance(amount, int) else round(amount * size)


def matching(*patterns: str) -> list[str]:
    """Return the parameters that match a glob, and none of the globs that begin with "!"."""
    wanted = [pattern for pattern in patterns if pattern[0] != "!"] or ["*"]
    unwanted = [pattern[1:] for pattern in patterns if pattern[0] == "!"]
    return [
        name
        for name in parameters
        if any(fnmatchcase(name, pattern) for pattern in wanted)
        and not any(fnmatchcase(name, pattern) for pattern in unwanted)
    ]


def held(t: Tensor) -> tuple[nn.Module, str]:
    """Return a module with a parameter, and its name; in your own program, (layer, "weight")."""
    wide = t.float() if t.itemsize == 1 else t  # torch supports few operations in 8 bits
    module = nn.Module()
    module.weight = nn.Parameter(wide.contiguous(), requires_grad=False)
    return module, "weight"


def without_channels(t: Tensor, dim: int, channels: Sequence[int]) -> Tensor:
    """Return a mask of ones, with zeros in the given channels."""
    return torch.ones_like(t).index_fill_(dim, torch.tensor(channels), 0)


def save_like(source: str, state: Mapping[str, Tensor], metadata: dict[str, str], out: str) -> None:
    """Write tensors in the order of a safetensors file; save_file would sort them."""
    octets = Path(source).read_bytes()
    known = json.loads(octets[8 : 8 + int.from_bytes(octets[:8], "little")])
    before = known.pop("__metadata__", {})
    values = {name: state[name].contiguous().view(-1).view(torch.uint8).numpy() for name in known}
    checksums = {name: f"{zlib.crc32(value.data):08x}" for name, value in values.items()}
    made_of = {
        "prune_gui.input": f"sha256:{hashlib.sha256(octets).hexdigest()}",
        "prune_gui.crc32": json.dumps(checksums, ensure_ascii=False, separators=(",", ":")),
    }
    header: dict[str, Any] = {"__metadata__": before | metadata | made_of}
    stop = 0
    for name, entry in known.items():
        start, stop = stop, stop + state[name].nbytes
        header[name] = {**entry, "data_offsets": (start, stop)}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with Path(out).open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for value in values.values():
            file.write(value.data)
