import pytest

from prune_gui.gui.views.axes import CountAxis, IndexAxis, dim_label, plane_labels


@pytest.mark.parametrize(
    ("name", "shape", "dims", "expected"),
    [
        ("fc.weight", (4, 3), None, ("dim 0: output channel", "dim 1: input channel")),
        ("fc.bias", (4,), None, ("", "entry")),
        ("scale", (), None, ("", "entry")),
        ("word_embeddings.weight", (9, 4), None, ("dim 0", "dim 1")),
        ("conv.weight", (4, 3, 2, 2), (1, 3), ("dim 1: input channel", "dim 3")),
    ],
)
def test_axes_are_called_what_they_are(name, shape, dims, expected):
    assert plane_labels(name, shape, dims) == expected


def test_a_flattened_convolution_says_what_lies_side_by_side():
    down, across = plane_labels("conv.weight", (4, 3, 2, 2), None)
    assert down == "dim 0: output channel"
    assert across.startswith("input channel")
    assert "kernel" in across


def test_a_dimension_beyond_the_second_has_a_number_only():
    assert dim_label("conv.weight", (4, 3, 2, 2), 2) == "dim 2"


def test_indices_are_whole_and_stay_within_the_parameter(qapp):
    axis = IndexAxis("bottom")
    axis.end = 12_289
    assert axis.tickStrings([-1, 0, 12_288, 12_289], 1, 1) == ["", "0", "12,288", ""]
    assert min(spacing for spacing, _ in axis.tickSpacing(0, 2, 500)) == 1


def test_a_logarithmic_axis_names_the_powers_of_ten(qapp):
    axis = CountAxis("left")
    axis.setLogMode(True)
    assert axis.tickStrings([-0.3, 0, 0.5, 3], 1, 1) == ["", "1", "", "1,000"]
    axis.setLogMode(False)
    assert axis.tickStrings([3000], 1, 1) == ["3,000"]
