import pytest

from prune_gui.gui.views import legend_text
from prune_gui.gui.views.legend_text import legend
from prune_gui.raster.colours import LIGHT


@pytest.fixture
def legend_after(subject_after):
    """Return a function of amounts that returns the legend after one L1 step for each."""

    def text(*amounts, **options):
        steps = [{"method": "l1_unstructured", "amount": amount} for amount in amounts]
        return legend(subject_after(*steps), LIGHT, **options).replace("&nbsp;", " ")

    return text


def test_the_legend_shows_each_colour_with_its_share(legend_after):
    text = legend_after(12)
    assert f"{LIGHT.kept}" in text
    assert f"{LIGHT.steps[0]}" in text
    assert "kept 36 (75.0 %)" in text
    assert "step 1: L1 unstructured 12 (25.0 %)" in text


def test_a_plain_legend_shows_kept_pruned_and_marks(legend_after):
    text = legend_after(12, 12, plain=True, marks=2)
    assert "kept 24 (50.0 %)" in text
    assert "pruned 24 (50.0 %)" in text
    assert "step" not in text
    assert "○ 2 lone cells" in text


def test_the_legend_of_many_steps_stays_short(legend_after, monkeypatch):
    monkeypatch.setattr(legend_text, "MAX_NAMED_COLOURS", 2)
    text = legend_after(1, 1, 1, 1)
    assert "3 more 3 (6.2 %)" in text
    assert "step 2" not in text


def test_zeros_in_the_file_are_parted_from_the_kept_elements_unless_a_step_may_prune_them(
    legend_after,
):
    text = legend_after(zeros=12)
    assert "kept 36 (75.0 %)" in text
    assert f'color: {LIGHT.zero}">■</span> zero in the file 12 (25.0 %)' in text
    text = legend_after(12, zeros=12)
    assert "kept 36 (75.0 %)" in text
    assert f'color: {LIGHT.zero}">■</span> zero in the file  ' in text


def test_colours_that_are_not_in_the_picture_have_hollow_squares(legend_after):
    assert legend_after(12).count("■") == 2
    text = legend_after(12, filled=False)
    assert text.index("■") < text.index("kept") < text.index("□") < text.index("step 1")
