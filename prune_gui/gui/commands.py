"""Commands of the user that concern more than one panel: files, closing, appearance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDialog, QWidget

from prune_gui.checkpoint.formats import stem_and_suffix
from prune_gui.checkpoint.safetensors.format import SAFETENSORS
from prune_gui.checkpoint.sharded.index import has_several_files
from prune_gui.checkpoint.write.documents import RECIPE_SUFFIXES, document_path, write_documents
from prune_gui.errors import PruneGuiError
from prune_gui.gui.dialogs import questions
from prune_gui.gui.remote_files import RemoteFiles, ask_location
from prune_gui.gui.runtime.preferences import Preferences
from prune_gui.gui.saving.checkpoint_saving import CheckpointSaving
from prune_gui.gui.workbench import Workbench
from prune_gui.language import deferred, tr
from prune_gui.location import Location
from prune_gui.recipe import Recipe
from prune_gui.resources import is_shipped, resource
from prune_gui.session import Settings
from prune_gui.session.changes import Changes
from prune_gui.session.session import start_folder
from prune_gui.worker.jobs import mask_step_job, open_job, table_job, trace_job

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor
    from prune_gui.recipe import Step
    from prune_gui.session import Session


class Commands:
    """Runs the commands of a window: shows dialogs where needed, then calls the workbench."""

    def __init__(self, window: QWidget, workbench: Workbench, preferences: Preferences) -> None:
        self.window = window
        self._workbench = workbench
        self.preferences = preferences
        self.remote = RemoteFiles(window, workbench, preferences)
        self.saving = CheckpointSaving(window, workbench, self.remote)
        self._given_up: object = None  # the draft that the user was told is not saved
        self.saving.notice.open_wanted.connect(self.open_path)
        workbench.changed.connect(self._on_changed)
        workbench.files.saved.connect(preferences.remember)

    def open(self) -> None:
        self.open_path(questions.ask_checkpoint(self.window, self.last_folder))

    def open_folder(self) -> None:
        self.open_path(questions.ask_folder(self.window, self.last_folder))

    def open_location(self) -> None:
        self.open_path(ask_location(self.window))

    def open_path(
        self, path: Path | None, recipe: Path | None = None, state: str | None = None
    ) -> None:
        """Open a checkpoint if there is one, unless the user decides to keep an unsaved recipe."""
        if path is not None:
            again = partial(self.open_path, path, recipe, state)
            may_replace = partial(self._may_drop_recipe, again)
            self._workbench.files.open(path, recipe, state, may_replace)

    def use_elsewhere(self) -> None:
        """Open another checkpoint with the current recipe, if the user accepts how it matches."""
        path = questions.ask_checkpoint(self.window, self.last_folder)
        if path is not None:
            self._workbench.bridge.run(open_job(path), self._agree_to_switch)

    def choose_reference(self) -> None:
        path = questions.ask_file(self.window, questions.REFERENCE, self.folder)
        if path is not None:
            self._workbench.comparison.set_reference(path)

    def _agree_to_switch(self, other: Session) -> None:
        from prune_gui.gui.dialogs.recipe_match import RecipeMatchDialog  # rarely shown

        session = self._workbench.opened
        dialog = RecipeMatchDialog(session.recipe, other.checkpoint, self.window)
        agreed = dialog.exec()
        dialog.deleteLater()
        if agreed and self._workbench.session is session:
            self._workbench.files.switch_to(other)
        else:
            other.checkpoint.close()

    def open_demo(self) -> None:
        checkpoint, recipe = "digits_cnn.safetensors", "digits_cnn.yaml"
        self.open_path(resource("demo", checkpoint), resource("demo", recipe))

    def open_dropped(self, paths: Sequence[Path]) -> None:
        """Open dropped files: a checkpoint, a recipe, or one of each. Report an error for more."""
        recipes = [path for path in paths if path.suffix.lower() in RECIPE_SUFFIXES]
        checkpoints = [path for path in paths if path not in recipes]
        if len(checkpoints) > 1 or len(recipes) > 1:
            several = PruneGuiError(
                "Drop one checkpoint, one recipe, or one of each. To open a checkpoint in "
                "several files, drop its folder."
            )
            self._workbench.fail(deferred("Opening the dropped files"), several)
        elif checkpoints and recipes:
            self.open_path(checkpoints[0], recipes[0])
        elif checkpoints:
            self._open_or_use(checkpoints[0])
        elif recipes:
            self.use_recipe(recipes[0])

    def use_masks(self) -> None:
        path = questions.ask_file(self.window, questions.MASKS, self.folder)
        session = self._workbench.opened
        if path is None:
            return

        def found(step: Step | None) -> None:
            if step is not None:
                self._add_masks(session, path, step)
                return
            missing = PruneGuiError(
                "{path} has no mask with the name and shape of a parameter of {name}. Masks "
                "are boolean tensors, or integers that are all 0 or 1.",
                path=path,
                name=session.checkpoint.path.name,
            )
            self._workbench.fail(deferred("Using a masks file as a step"), missing)

        self._workbench.bridge.run(mask_step_job(session, path), found)

    def _open_or_use(self, path: Path) -> None:
        """Open a dropped file, unless it holds masks that the user wants as a step."""
        session = self._workbench.session
        if session is None:
            self.open_path(path)
            return

        def found(step: Step | None) -> None:
            name = session.checkpoint.path.name
            use = step is not None and questions.ask_use_masks(self.window, path, name)
            if use and step is not None:
                self._add_masks(session, path, step)
            elif use is False:
                self.open_path(path)

        # If it fails, opening the file shows the error.
        job = mask_step_job(session, path)
        self._workbench.bridge.run(job, found, lambda _: self.open_path(path))

    def _add_masks(self, session: Session, path: Path, step: Step) -> None:
        if self._workbench.session is session:
            label = tr("Use the masks in {name}", name=path.name)
            self._workbench.edit(lambda session: session.append(label, step))

    def open_recipe(self) -> None:
        path = questions.ask_file(self.window, questions.RECIPE, self.folder)
        if path is not None:
            self.use_recipe(path)

    def use_recipe(self, path: Path) -> None:
        try:
            recipe = Recipe.load(path)
        except PruneGuiError as error:
            self._workbench.fail(deferred("Opening the recipe"), error)
            return
        if self._workbench.session is None:
            early = PruneGuiError(
                "Open a checkpoint first, then the recipe {name} for it.", name=path.name
            )
            self._workbench.fail(deferred("Opening the recipe"), early)
        else:
            self._workbench.edit(lambda session: session.use_recipe(recipe, path))

    def load_methods(self) -> None:
        path = questions.ask_file(self.window, questions.METHODS, self.folder)
        if path is not None and questions.agree_to_run(self.window, path):
            self._workbench.load_methods(path)

    def use_table(self) -> None:
        path = questions.ask_file(self.window, questions.ARCHITECTURE, self.folder)
        session = self._workbench.opened
        if path is None:
            return

        def checked(_: None) -> None:
            if self._workbench.session is session:
                self._workbench.edit(lambda session: session.use_table(path))

        self._workbench.bridge.run(table_job(session, path), checked)

    def trace_network(self) -> None:
        code = questions.ask_file(self.window, questions.NETWORK, self.folder)
        session = self._workbench.opened
        if code is None or not questions.agree_to_trace(self.window, code):
            return
        suggested = code.with_name(f"{code.stem}.yaml")
        table = questions.ask_target(self.window, questions.TRACED_TABLE, suggested)
        if table is None:
            return

        def traced(unknown: Sequence[str]) -> None:
            if self._workbench.session is session:
                self._workbench.edit(lambda session: session.use_table(table))
                questions.tell_unknown(self.window, unknown)

        self._workbench.bridge.run(trace_job(session, f"{code}:build", table), traced)

    def save_recipe(self) -> bool:
        path = self._workbench.opened.recipe_path
        if path is None or is_shipped(path) or path.suffix.lower() not in RECIPE_SUFFIXES:
            return self.save_recipe_as()
        return self._write_recipe(path)

    def save_recipe_as(self) -> bool:
        opened = self._workbench.opened.checkpoint.path.absolute()
        name = opened.parent.name if has_several_files(opened) else opened.stem
        suggested = self.folder / f"{name}.yaml"
        path = questions.ask_target(self.window, questions.SAVED_RECIPE, suggested)
        return path is not None and self._write_recipe(path)

    def save_checkpoint(self) -> None:
        self.saving.ask(self.settings.form)

    def copy_recipe(self) -> None:
        recipe = self._workbench.opened.recipe
        self._copy(recipe.anchored().to_yaml(), tr("Copied the recipe"))

    def copy_command(self) -> None:
        from prune_gui.gui.saving.output_boxes import pruned_path  # not needed at startup
        from prune_gui.recipe.script import command_line  # torch: slow to import

        session = self._workbench.opened
        out = pruned_path(session.checkpoint.path)
        line = command_line(session.recipe, session.checkpoint, out, session.recipe_file)
        self._copy(line, tr("Copied the command line"))

    def copy_script(self) -> None:
        from prune_gui.gui.saving.output_boxes import pruned_path  # not needed at startup

        session = self._workbench.opened
        recipe, out = session.recipe, pruned_path(session.checkpoint.path)
        out = out.with_name(f"{stem_and_suffix(out)[0]}{SAFETENSORS.suffixes[0]}")

        def work(monitor: Monitor) -> str:
            from prune_gui.recipe.script import python_script  # torch: slow to import

            return python_script(session.resolver.resolve(recipe, monitor), out)

        note = tr("Copied the Python script")
        self._workbench.bridge.run_job("script", work, lambda text: self._copy(text, note))

    def _copy(self, text: str, note: str) -> None:
        QGuiApplication.clipboard().setText(text)
        self._workbench.noted.emit(note)

    def may_close(self, close: Callable[[], object]) -> bool:
        """Ask about files being written and an unsaved recipe; return whether the window may close.

        If the user chooses to save the pruned checkpoint first, `close` is called after that.
        """
        from prune_gui.gui.dialogs.job_sequence import JobSequenceDialog  # rarely shown

        found = self.window.findChildren(QDialog)
        dialogs = [dialog for dialog in found if isinstance(dialog, JobSequenceDialog)]
        if self.saving.is_running or any(dialog.writing for dialog in dialogs):
            if not questions.ask_cancel_saving(self.window):
                return False
            self.saving.cancel()
            for dialog in dialogs:
                dialog.stop()
        return self._may_drop_recipe(close)

    @property
    def settings(self) -> Settings:
        return self.preferences.now

    @property
    def folder(self) -> Path:
        """The start folder of dialogs: that of the open checkpoint, or home for the demo."""
        return start_folder(self._workbench.session)

    @property
    def last_folder(self) -> Path:
        """The start folder of dialogs that open: that of the file that was opened or saved last."""
        recent = self.settings.recent
        folder = Location.at(Path(recent[0])).own_folder if recent else self.folder
        return folder if folder.is_dir() else self.folder

    def _may_drop_recipe(self, then: Callable[[], object]) -> bool:
        """Ask about an unsaved recipe and draft.

        `then` is called after the pruned checkpoint is saved.
        """
        session = self._workbench.session
        if session is None:
            return True
        draft = _unfinished(session)
        if session.draft is self._given_up:
            draft = ""
        if not session.unsaved:
            return not draft or questions.agree_to_drop_draft(self.window, draft)
        answer = questions.ask_unsaved(self.window, session.checkpoint.path.name, draft)
        if answer == "checkpoint":

            def go_on() -> None:
                self._given_up = session.draft
                then()

            self.saving.ask(self.settings.form, go_on)
        return self.save_recipe() if answer == "save" else answer == "discard"

    def _write_recipe(self, path: Path) -> bool:
        session = self._workbench.opened
        try:
            target = document_path(path, RECIPE_SUFFIXES)
            text = session.recipe.lying_in(target.parent).to_yaml().encode()
            write_documents({target: text}, overwrite=target == path)  # else nobody was asked
        except PruneGuiError as error:
            self._workbench.fail(deferred("Saving the recipe"), error)
            return False
        session.mark_saved(session.recipe, target)
        self._workbench.announce_saved(target)
        return True

    def _on_changed(self, changes: Changes) -> None:
        session = self._workbench.session
        if changes.file and session is not None and not is_shipped(session.checkpoint.path):
            self.preferences.remember(session.checkpoint.path)


def _unfinished(session: Session) -> str:
    """Return what of the draft is lost when the session ends, in sentences; "" for nothing."""
    draft, lost = session.draft, []
    if draft is not None and draft.editing is not None:
        if draft.step != session.steps[draft.editing]:
            lost.append(
                tr(
                    "The changes of step {number} are not applied, and are not saved.",
                    number=draft.editing + 1,
                )
            )
        draft = draft.aside
    if draft is not None and draft.is_set_up:
        lost.append(tr("The draft is not added to the stack, and is not saved."))
    return "\n".join(lost)
