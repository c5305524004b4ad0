"""The data of the overview: a thumbnail of every parameter, computed progressively."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prune_gui.errors import one_line
from prune_gui.gui.views.overview.layout import Arrangement
from prune_gui.gui.views.overview.text import FileCard, card
from prune_gui.gui.views.overview.thumbnail import Shading, Thumbnail, make_thumbnail, pixels
from prune_gui.raster.colours import Colours
from prune_gui.recipe.recipe import KEPT
from prune_gui.session.subjects import ModelSubject, Subject, by

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor
    from prune_gui.statistics.layer_rows import Rows
    from prune_gui.statistics.layer_statistics import LayerStatistics


SLICE_S: Final = 0.1
"""Time for which thumbnails are computed before they are shown and other jobs can run."""
BATCH: Final = 64


class Style(NamedTuple):
    """What determines the pixels of a thumbnail beside the mask."""

    shading: Shading
    colours: Colours
    draft: int | None


@dataclass(frozen=True, eq=False, slots=True)
class Picture:
    """The pixels of a thumbnail, uint8 (down, across, 4).

    `zeros` is the number of elements that are pruned or zero in the file, unless it is not known.
    """

    thumbnail: Thumbnail
    style: Style
    pixels: NDArray[np.uint8]
    zeros: int | None


@dataclass(frozen=True, slots=True)
class OverviewRequest:
    """What the user wants to see: the visible parameters first, and no more than a number of them.

    Vectors are all that have less than two dimensions, or are no weights (see `TensorInfo.kind`).
    """

    shading: Shading
    vectors: bool
    colours: Colours
    visible: tuple[str, ...]
    limit: int


@dataclass(frozen=True, eq=False, slots=True)
class OverviewData:
    """The content of the view. Unless all pictures are drawn, some are of other steps or styles."""

    subject: ModelSubject
    arrangement: Arrangement
    vectors: bool
    pictures: Mapping[str, Picture]
    is_drawn: bool
    statistics: LayerStatistics
    rows: Rows
    card: FileCard

    @property
    def targets(self) -> Mapping[str, int]:
        """The targets of the draft, with the number of elements that it prunes of each."""
        resolution, draft = self.subject.resolution, self.subject.draft
        return {} if draft is None else resolution.outcomes[draft - 1].pruned

    @property
    def is_complete(self) -> bool:
        return self.is_drawn and not self.statistics.is_pending

    def describe(self, name: str) -> str:
        """Describe a parameter in a few lines: name, shape and sparsity, what each step pruned."""
        subject = parameter_subject(self.subject, name)
        pruned, _ = subject.resolution.counts[name]
        lines = [
            by(subject.title(code), count, pruned)
            for code, count in subject.counts().items()
            if code != KEPT
        ]
        return "\n".join([one_line(name), subject.facts(), *lines])


def compute_overview(
    subject: ModelSubject, before: OverviewData | None, request: OverviewRequest, monitor: Monitor
) -> OverviewData:
    """Compute the content of the overview for `SLICE_S`: thumbnails first, then statistics.

    Thumbnails are exact. Visible ones come first.
    """
    # torch: slow to import
    from prune_gui.statistics.dispatch import read_budget
    from prune_gui.statistics.layer_rows import grouping, rows_of, updated_rows
    from prune_gui.statistics.layer_statistics import compute, empty_statistics

    end = time.monotonic() + SLICE_S
    resolution = subject.resolution
    if before is not None and not subject.same_parameter(before.subject):
        before = None
    previous = before.statistics if before else None
    statistics = empty_statistics(resolution, previous, reference=subject.reference)
    if before is not None and before.vectors is request.vectors:
        arrangement = before.arrangement
    else:
        tensors, names = resolution.checkpoint.tensors, resolution.counts
        arrangement = Arrangement.of(tensors, names, vectors=request.vectors)
    drawn = before.pictures if before else {}
    pictures, is_drawn = _draw(subject, arrangement, drawn, request, end, monitor)
    if is_drawn and before is not None and before.is_drawn and statistics.is_pending:
        budget = read_budget(counted=True, seconds=end - time.monotonic())
        statistics = compute(statistics, budget, monitor)
    if before is None or previous is None or previous.resolution is not resolution:
        groups = before.rows.grouping if before else grouping(statistics.infos, None)
        rows = rows_of(statistics, groups)
    else:
        rows = before.rows if statistics is previous else updated_rows(before.rows, statistics)
    blocks = sum(len(section.rows) for section in arrangement.sections if section.roles)
    file_zeros = subject.file_zeros
    if before is not None and before.rows is rows and before.subject.file_zeros is file_zeros:
        texts = before.card
    else:
        texts = card(statistics, rows, blocks, file_zeros)
    return OverviewData(
        subject, arrangement, request.vectors, pictures, is_drawn, statistics, rows, texts
    )


def parameter_subject(subject: ModelSubject, name: str) -> Subject:
    """Return one of the parameters of a model as the subject of a view."""
    info = subject.resolution.checkpoint.tensors[name]
    return Subject(subject.resolution, info, subject.draft, subject.file_zeros)


def _draw(
    subject: ModelSubject,
    arrangement: Arrangement,
    before: Mapping[str, Picture],
    request: OverviewRequest,
    end: float,
    monitor: Monitor,
) -> tuple[Mapping[str, Picture], bool]:
    from prune_gui.parallel import run  # torch: slow to import

    shading = request.shading
    style = Style(shading, request.colours, subject.draft)
    wanted = arrangement.visible_first(request.visible)[: request.limit]
    pending = [
        name
        for name in wanted
        if (old := before.get(name)) is None
        or old.style != style
        or not old.thumbnail.shows(parameter_subject(subject, name), shading)
    ]
    if not pending:
        return before, True

    def draw(name: str) -> tuple[str, Picture]:
        old, parameter = before.get(name), parameter_subject(subject, name)
        if old is not None and old.thumbnail.shows(parameter, shading):
            thumbnail = old.thumbnail
        else:
            thumbnail = make_thumbnail(parameter, shading, monitor)
        zeros = None
        if parameter.zeros and shading.measure is Shading.STEP:
            zeros = thumbnail.zeros(parameter.info.shape)
        return name, Picture(thumbnail, style, pixels(thumbnail, *style), zeros)

    kept = {name: before[name] for name in wanted if name in before}
    done = 0
    while done < len(pending) and (not done or time.monotonic() < end):
        for name, picture in run(draw, pending[done : done + BATCH]):
            kept[name] = picture
            done += 1
            if time.monotonic() >= end:
                break
    subject.resolution.checkpoint.check()
    return kept, done == len(pending)
