"""The content of a report, as plain values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from prune_gui.comparison.mask_overlap import Overlap, summed
from prune_gui.statistics.file_zeros import ZeroPatterns


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step of a recipe, as texts; its numbers of elements are None if they are not known."""

    number: int
    method: str
    settings: str
    targets: str
    enabled: bool
    pruned: int | None = None
    total: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Layer:
    """One prunable parameter. Energy is the sum of the squares of the finite weights.

    Attributes:
        by_code: the zeros by the step that pruned them; 255 for those of no known step.
        dead_channels: number of channels along dim 0 that are all zero; 0 if it has one dim.
        patterns: the patterns in its zeros; None if it has no zeros, or fewer than two dims.
        energy: energy of the nonzero elements; None if it is not known, as for a mask, or if there
            are no weights.
        energy_before: energy before pruning; None if it is not known, and for tensors that are no
            weights (see `TensorInfo.kind`).
        energy_kept: energy before pruning of the elements that are nonzero now; None likewise.
        error: that of a reconstruction, see `LayerError.error`; None without one.
        is_counted: whether totals count it: it is a weight, or a step prunes it.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    total: int
    zeros: int
    by_code: Mapping[int, int]
    dead_channels: int
    patterns: ZeroPatterns | None
    energy: float | None
    energy_before: float | None
    energy_kept: float | None
    warnings: tuple[str, ...]
    error: float | None = None
    is_counted: bool = True

    @property
    def sparsity(self) -> float:
        return self.zeros / self.total if self.total else 0.0

    @property
    def kept_energy(self) -> float | None:
        return kept_energy((self,))

    @property
    def norm(self) -> float | None:
        """The L2 norm of the finite weights; None if it is not known."""
        return None if self.energy is None else math.sqrt(self.energy)

    @property
    def norm_before(self) -> float | None:
        """The L2 norm of the finite weights before pruning; None if it is not known."""
        return None if self.energy_before is None else math.sqrt(self.energy_before)


@dataclass(frozen=True)
class FileRecord:
    """One checkpoint.

    Attributes:
        fingerprint: "sha256:<hex>" of the file.
        made_by: version of this program that wrote the file; "" if another program did.
        form: the form in which it was written; "" if another program wrote it.
        input: the fingerprint of the checkpoint that was pruned to make it; "" if it is not known.
        calibration: "sha256:<hex>" of the data of a reconstruction; "" without one.
        reference: the name of the checkpoint that it is compared with; "" if there is none.
        covers_reference: whether it has all weights of the reference, or known slices of them.
        recorded: the steps that the metadata of the file record.
        steps: the steps that are applied on top of the file, which the counts by step refer to.
        retraced: whether the counts by step are those of the recorded steps.
        recipe: the recipe in YAML; "" if there is none or it names folders.
    """

    label: str
    name: str
    folder: str
    format: str
    description: str
    files: int
    nbytes: int
    tensors: int
    fingerprint: str
    made_by: str
    form: str
    input: str
    calibration: str
    reference: str
    covers_reference: bool
    recorded: tuple[StepRecord, ...]
    steps: tuple[StepRecord, ...]
    retraced: bool
    recipe: str
    load_code: tuple[str, ...]
    layers: tuple[Layer, ...]
    warnings: tuple[str, ...]

    @cached_property
    def total(self) -> int:
        return sum(layer.total for layer in self.layers if layer.is_counted)

    @cached_property
    def zeros(self) -> int:
        return sum(layer.zeros for layer in self.layers if layer.is_counted)

    @property
    def sparsity(self) -> float:
        return self.zeros / self.total if self.total else 0.0

    @property
    def is_stack(self) -> bool:
        """Whether the steps are applied on top of the file, which itself is not changed."""
        return bool(self.steps) and not self.retraced

    @cached_property
    def by_code(self) -> Mapping[int, int]:
        counts: Counter[int] = Counter()
        for layer in self.layers:
            if layer.is_counted:
                counts.update(layer.by_code)
        return counts

    @cached_property
    def kept_energy(self) -> float | None:
        return kept_energy(self.layers) if self.covers_reference else None


@dataclass(frozen=True, slots=True)
class PairRecord:
    """The zeros of two of the checkpoints.

    Attributes:
        layers: the overlap of each parameter that both have; what only one has of it, as a compact
            file lacks slices, is zero in the other.
        omitted: number of parameters that are not compared.
    """

    left: str
    right: str
    layers: tuple[Overlap, ...]
    omitted: int

    @property
    def total(self) -> Overlap:
        """The sum of the layers; `left` are the elements that are revived in the second."""
        return summed(self.layers)


@dataclass(frozen=True, slots=True)
class Report:
    """What was pruned in one checkpoint or in several.

    Attributes:
        created: date and time in UTC, ISO 8601.
    """

    files: tuple[FileRecord, ...]
    pairs: tuple[PairRecord, ...]
    versions: Mapping[str, str]
    created: str


def kept_energy(layers: Iterable[Layer]) -> float | None:
    """Return the kept share of the energy of the layers for which it is known; None for none."""
    before = kept = 0.0
    for layer in layers:
        if layer.energy_before is not None and layer.energy_kept is not None:
            before += layer.energy_before
            kept += layer.energy_kept
    return kept / before if 0 < before < math.inf else None
