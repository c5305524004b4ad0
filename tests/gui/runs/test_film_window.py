"""The film of a run is shown at any step, and follows a run that is written."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from prune_gui.gui.dialogs import questions
from prune_gui.gui.runs.film import density, frame_text, pixels, survival_text
from prune_gui.gui.runs.film_window import FilmWindow
from prune_gui.raster.colours import LIGHT
from prune_gui.training.run_folder import Run, RunWriter

SHAPES = {"layers.0.weight": (24, 40), "layers.1.weight": (8, 24)}
STEPS = (0, 100, 200, 300)


def write(folder, shares=(0.0, 0.3, 0.6, 0.9), steps=STEPS, seed=0):
    generator = np.random.default_rng(seed)
    values = {name: generator.random(shape) for name, shape in SHAPES.items()}
    writer = RunWriter(folder, None)
    for step, share in zip(steps, shares, strict=True):
        add(writer, step, {name: value < share for name, value in values.items()})
    return values, writer


def add(writer, step, masks):
    bits = {name: np.packbits(mask, bitorder="little") for name, mask in masks.items()}
    writer.add(step, "pruned", bits, SHAPES, loss=1 / (1 + step))


@pytest.fixture
def run_folder(tmp_path):
    write(tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def open_film(window, monkeypatch, qtbot):
    def open_folder(folder):
        monkeypatch.setattr(questions, "ask_folder", lambda *_: folder)
        window.menu_actions["open_run"].trigger()
        qtbot.waitUntil(lambda: window.findChild(FilmWindow) is not None, timeout=20_000)
        return window.findChild(FilmWindow)

    return open_folder


@pytest.fixture
def film(open_film, run_folder):
    return open_film(run_folder)


def test_a_run_opens_at_its_last_frame_and_shows_any_other(film, qtbot):
    [pane] = film.panes
    assert pane.text.text().startswith("run: step 300, 9")
    film.slider.setValue(1)
    assert pane.text.text().startswith("run: step 100, 28.5 % pruned")
    film._choose("layers.1.weight")
    shares = pane.run.curve("sparsity", "layers.1.weight")
    assert pane.name.text() == f"layers.1.weight: {100 * shares[1]:.1f} %"
    qtbot.waitUntil(lambda: pane.picture._image is not None)


def test_it_plays_to_the_end(film, qtbot):
    film.play.click()
    assert film.slider.value() == 0
    qtbot.waitUntil(lambda: film.slider.value() == len(STEPS) - 1)
    assert not film.play.isChecked()


def test_it_follows_a_run_that_is_written(film, run_folder, qtbot):
    run = Run(run_folder)
    writer = RunWriter(run_folder, resumed_at=300)
    film.slider.setValue(3)
    add(writer, 400, {name: np.ones(shape, bool) for name, shape in SHAPES.items()})
    qtbot.waitUntil(lambda: len(film.panes[0].run.frames) == 5)
    qtbot.waitUntil(lambda: film.slider.value() == 4)
    assert "step 400, 100.0 % pruned" in film.panes[0].text.text()
    assert len(run.frames) == 4


def test_a_gradual_run_that_begins_without_masks_is_followed(open_film, tmp_path, qtbot):
    writer = RunWriter(tmp_path, None)
    add(writer, 0, {})
    film = open_film(tmp_path)
    [pane] = film.panes
    assert "step 0, 0.0 % pruned" in pane.text.text()
    add(writer, 100, {name: np.ones(shape, bool) for name, shape in SHAPES.items()})
    qtbot.waitUntil(lambda: film.parameter == "layers.0.weight")
    assert pane.name.text() == "layers.0.weight: 100.0 %"
    qtbot.waitUntil(lambda: pane.picture._image is not None)
    assert pane.arrangement.sections


def test_a_second_run_is_compared_with_the_first(film, tmp_path, monkeypatch, qtbot):
    write(tmp_path / "second", seed=1)
    monkeypatch.setattr(questions, "ask_folder", lambda *_: tmp_path / "second")
    film.beside.click()
    qtbot.waitUntil(lambda: len(film.panes) == 2)
    assert not film.beside.isEnabled()
    qtbot.waitUntil(lambda: "by chance" in film.survival.text())


def test_checkpoints_of_a_training_are_shown_and_followed(open_film, tmp_path, qtbot):
    def save(step):
        weights = {name: torch.ones(shape) for name, shape in SHAPES.items()}
        weights["layers.0.weight"] *= step
        weights["layers.1.weight"][:step] = 0
        save_file(weights, tmp_path / f"model-{step}.safetensors")

    save(1)
    save(2)
    film = open_film(tmp_path)
    [pane] = film.panes
    assert pane.text.text().endswith("step 2, 4.2 % zero, 2.1 % changed")
    assert pane.name.text() == "layers.0.weight: 0.0 %"
    qtbot.waitUntil(lambda: pane.picture._image is not None)
    assert film.quantity.isVisible()
    for quantity, text in (("norm", "62"), ("from_first", "100.0 %")):
        film.quantity.setCurrentIndex(film.quantity.findData(quantity))
        assert pane.name.text() == f"layers.0.weight: {text}"
    save(4)
    qtbot.waitUntil(lambda: film.slider.value() == 2)
    assert pane.name.text() == "layers.0.weight: 300.0 %"
    film._choose("layers.1.weight")
    assert pane.name.text().startswith("layers.1.weight: 65.")


def test_a_folder_without_a_run_is_told(window, tmp_path, monkeypatch, qtbot):
    monkeypatch.setattr(questions, "ask_folder", lambda *_: tmp_path)
    with qtbot.waitSignal(window.workbench.bridge.failed) as failed:
        window.menu_actions["open_run"].trigger()
    assert tmp_path.name in str(failed.args[1])


@pytest.mark.parametrize("shape", [(24, 40), (7,), (5, 3, 3, 3), (3000, 2048)])
def test_cells_are_the_shares_of_their_elements(shape):
    generator = np.random.default_rng(0)
    mask = generator.random(shape) < 0.3
    found = density(np.packbits(mask, bitorder="little"), shape, 50, 40)
    matrix = mask.reshape(shape[0] if len(shape) > 1 else 1, -1)
    assert found.shape == (min(50, len(matrix)), min(40, matrix.shape[1]))
    assert found.mean() == pytest.approx(mask.mean(), abs=0.01)
    if found.shape == matrix.shape:
        assert np.array_equal(found, matrix)


def test_texts_of_frames_and_of_two_runs(run_folder):
    run = Run(run_folder)
    assert frame_text(run, 0) == "step 0, 0.0 % pruned, loss 1"
    assert "changed" in frame_text(run, 2)
    first, second = (np.packbits(m, bitorder="little") for m in ([1, 1, 0, 0], [1, 0, 1, 0]))
    text = survival_text(first, second, 4)
    assert text == "50.0 % of what the first run keeps, the second keeps; by chance 50.0 %"
    assert survival_text(np.array([15], np.uint8), second, 4) == ""


def test_kept_is_pale_and_pruned_has_the_colour_of_a_step():
    shades = LIGHT
    [[kept, pruned]] = pixels(np.array([[0.0, 1.0]], np.float32), shades)[..., :3]
    assert [f"#{bytes(c).hex()}" for c in (kept, pruned)] == [shades.kept, shades.steps[0]]
