"""The dialog that exports figures."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import numpy as np
import pyqtgraph as pg
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QGuiApplication, QImage, QPalette
from waiting import draft_step

from prune_gui.gui.figures.figure import PAGE, PICTURE, Figure, Sheet
from prune_gui.gui.figures.picture import Cover, picture_panel
from prune_gui.gui.views import registry
from prune_gui.gui.views.maps.canvas import SquareCells
from prune_gui.gui.views.plot import Plot, pen
from prune_gui.raster.colours import DARK, LIGHT
from prune_gui.session import Settings
from prune_gui.session.settings import FigureSettings


def choose(dialog, box, value, qtbot):
    """Choose an item as a user does, and wait for the preview."""
    index = box.findData(value)
    assert index >= 0
    before = dialog.preview.pixmap().cacheKey()
    box.setCurrentIndex(index)
    qtbot.waitUntil(lambda: dialog.preview.pixmap().cacheKey() != before, timeout=60_000)


@pytest.mark.slow
@pytest.mark.parametrize("name", [spec.key for spec in registry.VIEWS])
def test_every_picture_is_exported_with_its_title(
    pruned, look_at, open_dialog, export_to, name, tmp_path, qtbot
):
    view = look_at(pruned.views.view(name))
    path = tmp_path / "picture.svg"
    dialog = open_dialog()
    choose(dialog, dialog.fields["format"], "svg", qtbot)
    export_to(dialog, path)
    title, what = view.caption()
    text = "".join(ET.fromstring(path.read_bytes()).itertext())
    assert title in text
    assert what.partition(":")[0] in text
    dialog.close()


def test_the_preview_follows_the_settings_which_are_remembered(pruned, look_at, open_dialog, qtbot):
    look_at(pruned.views.view("mask"))
    dialog = open_dialog()
    choose(dialog, dialog.fields["layout"], "layers", qtbot)
    choose(dialog, dialog.fields["dark"], True, qtbot)
    assert dialog.preview.pixmap().toImage().pixelColor(1, 1) == QColor(DARK.background)
    dialog.fields["text_pt"].setValue(9)
    dialog.fields["title"].setChecked(False)
    dialog.close()
    now = Settings.load().figure
    assert (now.layout, now.dark, now.text_pt, now.title) == ("layers", True, 9, False)
    again = open_dialog()
    assert again.fields["layout"].value == "layers"
    assert again.fields["text_pt"].value() == 9
    again.close()


def test_lengths_stay_when_the_unit_changes_and_pixels_when_the_resolution_does(
    pruned, look_at, open_dialog
):
    look_at(pruned.views.view("mask"))
    dialog = open_dialog()
    dialog.fields["dpi"].setValue(254)
    dialog.fields["width"].setValue(100)
    dialog.fields["unit"].setCurrentIndex(1)
    assert dialog.fields["width"].text() == "1000"
    assert dialog.settings.per_inch == 254
    dialog.fields["dpi"].setValue(508)
    assert dialog.fields["width"].value() == 1000
    dialog.fields["unit"].setCurrentIndex(0)
    assert dialog.fields["width"].value() == 50
    dialog.sizes.setCurrentIndex(0)
    assert (dialog.fields["width"].value(), dialog.fields["unit"].value) == (85, "mm")
    dialog.close()


def test_a_picture_is_exported_when_all_of_it_has_the_colours_of_the_figure(
    pruned, look_at, open_dialog, qtbot
):
    view = look_at(pruned.views.view("overview"))
    dialog = open_dialog()
    qtbot.waitUntil(dialog.export.isEnabled, timeout=60_000)
    dialog.fields["dark"].setCurrentIndex(1)
    qtbot.waitUntil(lambda: not dialog.export.isEnabled())
    qtbot.waitUntil(dialog.export.isEnabled, timeout=60_000)
    assert view.is_drawn()
    dialog.close()
    qtbot.waitUntil(lambda: not view.findChildren(Cover), timeout=60_000)


def test_an_existing_file_that_the_user_chose_is_replaced(
    pruned, look_at, open_dialog, export_to, tmp_path, qtbot
):
    look_at(pruned.views.view("mask"))
    dialog, path = open_dialog(), tmp_path / "figure.png"
    path.write_bytes(b"")
    choose(dialog, dialog.fields["layout"], PAGE, qtbot)
    choose(dialog, dialog.fields["format"], "png", qtbot)
    export_to(dialog, path)
    assert "figure.png" in dialog.note.text()
    assert QImage(str(path)).width() == 1004
    dialog.close()


def test_a_failed_write_says_why_in_the_dialog_which_stays(
    pruned, look_at, open_dialog, export_to, tmp_path
):
    look_at(pruned.views.view("mask"))
    dialog = open_dialog()
    export_to(dialog, tmp_path / "no folder" / "a.pdf")
    assert "no folder" in dialog.note.text()
    assert dialog.isVisible()
    dialog.close()
    assert not any(tmp_path.iterdir())


def test_the_picture_of_a_dark_view_is_exported_light_without_its_selection(
    pruned, look_at, open_dialog, export_to, tmp_path, qtbot
):
    pruned.commands.preferences.change("theme", "dark")
    view = look_at(pruned.views.view("overview"))
    dialog, path = open_dialog(), tmp_path / "overview.png"
    qtbot.waitUntil(
        lambda: dialog.preview.pixmap().toImage().pixelColor(1, 1) == QColor(LIGHT.background),
        timeout=60_000,
    )
    choose(dialog, dialog.fields["format"], "png", qtbot)
    export_to(dialog, path)
    image = QImage(str(path))
    assert image.pixelColor(1, 1) == QColor(LIGHT.background)
    assert view.grab().toImage() == view.findChild(Cover).pixmap().toImage()
    dialog.close()
    qtbot.waitUntil(lambda: not view.findChildren(Cover))
    assert view.palette().color(QPalette.ColorRole.Base) == QColor(DARK.background)
    pruned.commands.preferences.change("theme", "light")


def picture_of(view):
    return Sheet(Figure([picture_panel(view)], "", FigureSettings()), "png", 100).finish().image


def test_a_picture_has_the_same_place_at_any_resolution(pruned, look_at):
    panel = picture_panel(look_at(pruned.views.view("norms")))
    figure = Figure([panel], "", FigureSettings(legend=False))
    ends = []
    for dpi in (72, 300):
        image = Sheet(figure, "png", dpi).finish().image
        pixels = np.frombuffer(image.constBits(), np.uint32).reshape(image.height(), -1)
        ends.append(np.argwhere(pixels != pixels[0, 0]).max(0) / pixels.shape)
    assert ends[0] == pytest.approx(ends[1], abs=0.01)
    assert ends[0].min() > 0.9


def image_box(figure):
    """Return the left, top, right and bottom of the only image in the SVG of a figure."""
    root = ET.fromstring(Sheet(figure, "svg").finish().content())
    [(group, image)] = [
        (group, image)
        for group in root.iter("{http://www.w3.org/2000/svg}g")
        for image in group.findall("{http://www.w3.org/2000/svg}image")
    ]
    a, _, _, d, left, top = map(float, group.get("transform")[7:-1].split(","))
    return left, top, left + a * float(image.get("width")), top + d * float(image.get("height"))


def test_a_picture_with_square_cells_is_larger_on_paper_than_on_a_low_screen(pruned, look_at):
    view = look_at(pruned.views.view("mask"))  # its picture is twice as high as wide
    view.findChild(SquareCells).click()
    view.canvas.resize(900, 400)
    figure = Figure([picture_panel(view)], "", FigureSettings())
    left, top, right, bottom = image_box(figure)
    assert (bottom - top) / (right - left) == pytest.approx(2, rel=0.1)
    assert right - left > 0.5 * figure.size.width()


def test_a_zoomed_picture_ends_at_its_frame_in_an_svg(pruned, look_at, settle):
    view = look_at(pruned.views.view("mask"))
    view.canvas.setRange(xRange=(3, 8), yRange=(10, 20), padding=0)
    settle()
    whole = view.canvas.part.image
    figure = Figure([picture_panel(view)], "", FigureSettings())
    left, top, right, bottom = image_box(figure)
    frame = view.canvas.view.sceneBoundingRect()
    assert left > 15  # the axis is beside it
    assert top >= 5
    assert right <= figure.size.width() - 5
    assert bottom <= figure.size.height() - 15
    assert (right - left) / (bottom - top) == pytest.approx(frame.width() / frame.height(), rel=0.3)
    assert view.canvas.part.image is whole


def points_of(path):
    """Return the points of a path of straight lines, (points, 2)."""
    numbers = re.findall(r"-?[\d.]+(?:e-?\d+)?", path.get("d"))
    return np.array(numbers, float).reshape(-1, 2)


@pytest.mark.parametrize("name", ["norms", "layers", "distribution"])
def test_zoomed_bars_end_at_their_frame_in_an_svg(pruned, look_at, settle, name):
    view = look_at(pruned.views.view(name))
    plots = view.findChildren(Plot)
    for plot in plots:
        first, last = plot.view.viewRange()[0]
        plot.setXRange(first + 0.3 * (last - first), first + 0.5 * (last - first), padding=0)
    settle()
    figure = Figure([picture_panel(view)], "", FigureSettings())
    root = ET.fromstring(Sheet(figure, "svg").finish().content())
    sides = []
    for group in root.iter("{http://www.w3.org/2000/svg}g"):
        a, b, _, _, left, _ = map(
            float, group.get("transform", "matrix(1,0,0,1,0,0)")[7:-1].split(",")
        )
        if abs(a) > 1 and not b:  # in the coordinates of a plot
            for bar in group.findall("{http://www.w3.org/2000/svg}path"):
                sides += [left + a * x for x in points_of(bar)[:, 0]]
    assert len(sides) > 4
    assert min(sides) > 15  # the axis is beside it
    assert max(sides) <= figure.size.width() - 5


def test_a_line_beyond_the_frame_of_a_plot_is_clipped_in_an_svg(pruned, look_at):
    plot = look_at(pruned.views.view("norms")).findChild(Plot)
    (first, last), (low, high) = plot.view.viewRange()
    beyond = pg.PlotCurveItem([2 * first - last, 2 * last], [low, 2 * high], pen=pen("#ff0000"))
    plot.addItem(beyond, ignoreBounds=True)
    figure = Figure([picture_panel(pruned.views.view("norms"))], "", FigureSettings())
    root = ET.fromstring(Sheet(figure, "svg").finish().content())
    svg = "{http://www.w3.org/2000/svg}"
    [clip] = [
        group.get("clip-path")[5:-1]
        for group in root.iter(f"{svg}g")
        for line in group.findall(f"{svg}g[@stroke='#ff0000']")
        if line.find(f"{svg}path") is not None
    ]
    corners = points_of(root.find(f".//{svg}clipPath[@id='{clip}']/{svg}path"))
    assert (corners.min(0) > (15, 5)).all()  # the axis is beside it
    assert (corners.max(0) < (figure.size.width() - 5, figure.size.height() - 15)).all()
    width, height = np.ptp(corners, 0)
    frame = plot.view.sceneBoundingRect()
    assert width / height == pytest.approx(frame.width() / frame.height(), rel=0.3)


def test_lines_along_the_tops_of_bars_are_as_thin_at_any_resolution(pruned, look_at):
    view = look_at(pruned.views.view("norms"))
    figure = Figure([picture_panel(view)], "", FigureSettings())
    root = ET.fromstring(Sheet(figure, "svg").finish().content())
    lines = root.iter("{http://www.w3.org/2000/svg}polyline")
    scaled = [line for line in lines if line.get("vector-effect") == "non-scaling-stroke"]
    assert scaled == []


@pytest.mark.parametrize("name", ["overview", "layers", "compare"])
def test_the_picture_of_a_view_shows_no_selection(pruned, look_at, name):
    view, workbench = look_at(pruned.views.view(name)), pruned.workbench
    workbench.choose("features.conv3.weight")
    with_choice = picture_of(view)
    workbench.choose(None)
    assert picture_of(view) == with_choice


def test_the_picture_of_the_overview_shows_no_outlines_of_targets(
    pruned, look_at, make_step, settle
):
    view, workbench = look_at(pruned.views.view("overview")), pruned.workbench
    before = picture_of(view)
    draft_step(workbench, make_step("l1_unstructured", "features.conv3.weight", amount=0))
    settle()
    assert picture_of(view) == before


def test_a_figure_is_copied_as_an_image_and_as_svg(pruned, look_at, open_dialog, qtbot):
    look_at(pruned.views.view("mask"))
    dialog = open_dialog()
    choose(dialog, dialog.fields["layout"], "mask", qtbot)
    dialog.copy.click()
    qtbot.waitUntil(dialog.note.isVisible)
    mime = QGuiApplication.clipboard().mimeData()
    assert QImage(mime.imageData()).width() == 1004
    text = "".join(ET.fromstring(bytes(mime.data("image/svg+xml").data())).itertext())
    assert "features.conv2.weight" in text
    dialog.close()


def test_curves_are_offered_after_an_evaluation_only(pruned, look_at, open_dialog):
    look_at(pruned.views.view("mask"))
    dialog = open_dialog()
    box = dialog.fields["layout"]
    at = box.findData("curves")
    assert not box.model().item(at).isEnabled()
    assert "sweep" in box.itemData(at, Qt.ItemDataRole.ToolTipRole)
    dialog.settings = dialog.settings.model_copy(update={"layout": "curves"})
    dialog._show()
    assert box.value == PICTURE
    dialog.close()
