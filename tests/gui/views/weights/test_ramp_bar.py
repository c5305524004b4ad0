from prune_gui.gui.views.weights.view import RampBar
from prune_gui.raster.colours import LIGHT, ramp


def test_the_ramp_bar_shows_the_numbers_at_its_ends_and_middle(qtbot):
    bar = RampBar()
    qtbot.addWidget(bar)
    bar.show_ramp(ramp(LIGHT, signed=True), 0.5)
    assert bar.numbers == ("-0.5", "0", "0.5")
    bar.show_ramp(ramp(LIGHT, signed=False), 0.5)
    assert bar.numbers == ("0", "0.125", "0.5")
    bar.show_ramp(ramp(LIGHT, signed=True), 0.0)
    assert bar.numbers == ("0", "0", "0")
    bar.show_ramp(ramp(LIGHT, signed=False), 0.5)
    shown = bar.grab().toImage()
    assert shown.pixelColor(1, 3).lightness() > shown.pixelColor(bar.width() - 2, 3).lightness()
