import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDoubleSpinBox

from prune_gui.gui.views.compare.play_bars import BlinkBar, FilmBar


@pytest.fixture
def film(shown):
    bar = shown(FilmBar())
    bar.set_last(3)
    return bar


def test_a_film_starts_at_its_last_frame_and_stays_there(film):
    assert film.frame == 3
    film.set_last(4)
    assert film.frame == 4
    film.set_last(2)
    assert film.frame == 2


def test_another_frame_stays_chosen_while_frames_are_added(film):
    film.slider.setValue(1)
    film.set_last(5)
    assert film.frame == 1
    film.set_last(0)
    assert film.frame == 0
    assert not film.button.isEnabled()


def test_the_arrow_keys_choose_a_frame(film, qtbot):
    with qtbot.waitSignal(film.changed):
        qtbot.keyClick(film.slider, Qt.Key.Key_Left)
    assert film.frame == 2
    qtbot.keyClick(film.slider, Qt.Key.Key_Right)
    assert film.frame == 3


def test_a_film_plays_from_the_start_and_stops_at_the_end(film, qtbot):
    film._timer.setInterval(5)
    frames = []
    film.changed.connect(lambda: frames.append(film.frame))
    qtbot.mouseClick(film.button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not film.button.isChecked())
    assert frames == [0, 1, 2, 3]
    assert not film._timer.isActive()


def test_a_hidden_film_is_paused(film):
    film.button.setChecked(True)
    film.hide()
    assert not film.button.isChecked()
    assert not film._timer.isActive()


def test_the_interval_of_blinking_can_be_set(shown, qtbot):
    bar = shown(BlinkBar())
    assert bar.playing
    seconds = bar.findChild(QDoubleSpinBox)
    with qtbot.waitSignal(bar.changed):
        seconds.setValue(0.2)
    assert bar.interval_ms == 200
    qtbot.mouseClick(bar.button, Qt.MouseButton.LeftButton)
    assert not bar.playing
