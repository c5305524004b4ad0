"""The subjects of the views: the chosen parameter, or all parameters of the open checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prune_gui.audit.view_data.model_subject import ModelSubject
from prune_gui.audit.view_data.subject import Subject
from prune_gui.errors import one_line
from prune_gui.language import tr

if TYPE_CHECKING:
    from prune_gui.recipe import Resolution
    from prune_gui.session.session import Session


def subject_of(
    session: Session | None,
    shown: Resolution | None,
    name: str | None,
    draft: int | None,
    masks: Resolution | None = None,
) -> Subject | str:
    """Return the subject of the views of one parameter, or why there is none, as a message.

    Args:
        session: the open session.
        shown: the resolution to show.
        name: name of the chosen parameter.
        draft: step number of the draft in `shown`; None without a draft.
        masks: a resolution whose parameters are the masks in the file; None before it is known.
    """
    if session is None:
        return _nothing_is_open()
    info = session.checkpoint.tensors.get(name) if name is not None else None
    if info is None:
        return tr("Choose a parameter in the tree of modules to look at it.")
    if masks is not None and masks.checkpoint is session.checkpoint and info.name in masks.counts:
        return Subject(masks, info, None)
    if info.not_prunable is not None:
        why = tr(info.not_prunable)
        return tr("{name} cannot be pruned: {why}.", name=one_line(info.name), why=why)
    if shown is None or shown.checkpoint is not session.checkpoint:
        return tr("Computing the masks…")
    return Subject(shown, info, draft, session.file_zeros)


def model_subject_of(
    session: Session | None, shown: Resolution | None, draft: int | None
) -> ModelSubject | str:
    """Return the subject of the views of all parameters, or why there is none, as a message.

    Args:
        session: the open session.
        shown: the resolution to show.
        draft: step number of the draft in `shown`; None without a draft.
    """
    if session is None:
        return _nothing_is_open()
    if shown is None or shown.checkpoint is not session.checkpoint:
        return tr("Computing the masks…")
    if not shown.counts:
        return tr("Nothing in {file} can be pruned.", file=session.checkpoint.path.name)
    return ModelSubject(shown, draft, session.file_zeros)


def _nothing_is_open() -> str:
    return tr("Nothing is open.\nOpen a checkpoint to look at its parameters.")
