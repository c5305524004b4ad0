"""diffusers pipelines: a folder with an inner folder for each of several models."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from prune_gui.checkpoint.folder import is_weight_file, visible_files
from prune_gui.errors import CheckpointError
from prune_gui.language import listed, tr

PIPELINE_INDEX: Final = "model_index.json"
"""The file that marks the folder of a pipeline. It does not list the weight files."""

DENOISERS: Final = ("unet", "transformer")
"""The folders of the main model of a pipeline, as diffusers names them."""


class Component(NamedTuple):
    """One model of a pipeline.

    Attributes:
        folder: the folder of the pipeline.
        name: the name of the model, which is that of its inner folder.
        names: the names of all models with weights.
        path: the path to open: the folder of the model, or a file in it.
    """

    folder: Path
    name: str
    names: tuple[str, ...]
    path: Path

    @property
    def remarks(self) -> tuple[str, ...]:
        """A remark that names the other models, if there are any."""
        others = [name for name in self.names if name != self.name]
        if not others:
            return ()
        return (
            tr(
                "This is {name!r} of a pipeline of several models. The others are {others}. "
                "Choose one by its name: --state, or File > State dict.",
                name=self.name,
                others=listed(others),
            ),
        )


def find_component(path: Path, wanted: str | None) -> Component | None:
    """Return the model of a pipeline that a path and a name select; None if it is none."""
    if names := _model_names(path):
        if wanted is not None and wanted not in names:
            raise CheckpointError(
                tr(
                    "{path} is a pipeline of several models, and has no {name!r}. "
                    "Choose one of {names}.",
                    path=path,
                    name=wanted,
                    names=listed(names),
                )
            )
        name = wanted or _main_model(path, names)
        return Component(path, name, names, path / name)
    inner = (path if path.is_dir() else path.parent).absolute()
    try:
        names = _model_names(inner.parent)
    except OSError:  # an unreadable parent folder does not prevent opening the file
        return None
    if inner.name not in names or wanted not in (None, *names):
        return None
    other = inner.parent / wanted if wanted not in (None, inner.name) else path
    return Component(inner.parent, wanted or inner.name, names, other)


def _model_names(folder: Path) -> tuple[str, ...]:
    """Return the names of the inner folders with weights; () if the folder is not a pipeline."""
    if not (folder / PIPELINE_INDEX).is_file():
        return ()
    inner = [path for path in folder.iterdir() if path.is_dir()]
    return tuple(
        sorted(path.name for path in inner if any(map(is_weight_file, visible_files(path))))
    )


def _main_model(folder: Path, names: tuple[str, ...]) -> str:
    sizes = {
        name: sum(
            path.stat().st_size for path in visible_files(folder / name) if is_weight_file(path)
        )
        for name in names
    }
    return next((name for name in DENOISERS if name in names), max(names, key=sizes.__getitem__))
