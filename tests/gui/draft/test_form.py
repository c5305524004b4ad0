"""The form for the fields of a method."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pages import Form, choose
from pydantic import create_model
from PySide6.QtCore import QLocale, Qt
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QComboBox,
    QDoubleSpinBox,
    QFileDialog,
    QLabel,
    QSlider,
    QToolButton,
)

from prune_gui.gui.draft.amount_fields import AmountField
from prune_gui.gui.draft.form import MethodForm, _field_of, summary
from prune_gui.language import SOURCE, use_language
from prune_gui.pruning.methods import METHODS, Method, ScoredMethod
from prune_gui.pruning.methods.channels import format_ranges

amounts = st.floats(0, 1) | st.integers(0, 2**40)
scopes = st.sampled_from(["local", "global"])
parts = st.sampled_from(["remaining", "total", "reach"])
seeds = st.integers(-(2**62), 2**62)
files = st.none() | st.sampled_from(["scores.safetensors", "/a folder/b.pt"])
norms = st.integers(0, 9) | st.sampled_from([0.5, math.inf, -math.inf, 2.0, "fro", "nuc"])
dims = st.integers(-4, 4)
ranked = {"amount": amounts, "scope": scopes, "amount_of": parts}
overall = {"amount": amounts, "amount_of": parts, "max_sparsity": st.floats(0, 1)}
channels = {"amount": amounts, "dim": dims, "amount_of": parts}
listed = st.lists(st.integers(0, 99), min_size=1, unique=True)
PARAMETERS = {
    "refit": {"moments": st.just("moments.safetensors"), "damping": st.floats(0, 1e300)},
    "bias_correction": {"means": st.just("means.safetensors")},
    "batch_norm_statistics": {"statistics": st.just("/a folder/b.pt")},
    "l1_unstructured": ranked | {"importance": files},
    "ln_structured": channels | {"n": norms, "importance": files},
    "lamp": overall | {"importance": files},
    "balanced": overall
    | {
        "over": st.sampled_from(["lamp", "global", "local", "row"]),
        "row_power": st.floats(0, 1),
        "column_power": st.floats(0, 1),
    },
    "erk": overall | {"score": st.sampled_from(["magnitude", "balanced", "ria"])},
    "threshold": {
        "value": st.floats(0, 1e300),
        "relative_to": st.sampled_from(["absolute", "std"]),
        "moved_from": files,
    },
    "n_m": {
        "n": st.integers(0, 4),
        "m": st.integers(4, 2**40),
        "dim": dims,
        "flatten": st.booleans(),
        "tail": st.sampled_from(["refuse", "keep"]),
        "importance": files,
    },
    "block": {
        "amount": amounts,
        "height": st.integers(1, 64),
        "width": st.integers(1, 64),
        "n": norms,
        "scope": scopes,
        "max_sparsity": st.floats(0, 1),
    },
    "channels": {"channels": listed, "dim": dims},
    "coupled": ranked
    | {
        "space": st.sampled_from(["ffn", "experts"]),
        "n": st.integers(1, 9) | st.sampled_from([0.5, 2.0]),
        "reduction": st.sampled_from(["mean", "sum", "max"]),
        "normalization": st.sampled_from(["mean", "max", "none"]),
        "uniform": st.booleans(),
        "round_to": st.integers(1, 1 << 20),
        "importance": files,
    },
    "layers": {"layers": listed, "stack": st.sampled_from(["all", "decoder"])},
    "experts": {
        "amount": amounts,
        "importance": files.filter(bool),
        "reduction": st.sampled_from(["mean", "sum", "max"]),
    },
    "listed_units": {"units": listed, "space": st.sampled_from(["heads", "channels"])},
    "tokens": {"listed": files.filter(bool), "corpus": st.none()},
    "random_unstructured": ranked | {"seed": seeds},
    "random_structured": channels | {"seed": seeds},
    "custom_from_mask": {"mask": files.filter(bool)},
    "dead_units": {"fold_constants": st.booleans()},
    "identity": {},
}


@pytest.fixture
def form(qtbot):
    made = MethodForm()
    qtbot.addWidget(made)
    return made


@pytest.fixture
def page(form):
    return Form(form)


@pytest.fixture
def decimal_comma(qapp):
    QLocale.setDefault(QLocale("de_DE"))
    use_language(SOURCE, group=".", point=",")
    yield
    use_language(SOURCE)
    QLocale.setDefault(QLocale.system())


@pytest.mark.parametrize("name", METHODS)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_the_form_returns_the_method_that_it_shows(form, name, data):
    parameters = data.draw(st.fixed_dictionaries(PARAMETERS[name]))
    method = METHODS[name].model_validate(parameters)
    form.show_method(method)
    assert form.method() == method
    assert {f: type(v) for f, v in form.method()} == {f: type(v) for f, v in method}


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_a_summary_and_a_row_for_each_field(form, name):
    assert summary(METHODS[name]).endswith(".")
    form.use(METHODS[name])
    assert set(form._fields) == set(METHODS[name].model_fields)
    main = [name for name, field in form._fields.items() if not form.fold.isAncestorOf(field)]
    assert list(form._fields)[: len(main)] == main
    if not issubclass(METHODS[name], ScoredMethod):
        return
    assert list(form._fields)[-2:] == ["importance", "moved_from"]


def test_more_counts_the_changed_fields_below_it(form):
    form.use(METHODS["l1_unstructured"])
    assert form.fold.button.text() == "More"
    form.show_method(METHODS["l1_unstructured"](amount=0.2, max_sparsity=0.9, amount_of="total"))
    assert form.fold.button.text() == "More (2 changed)"
    Form(form).enter(max_sparsity=100)
    assert form.fold.button.text() == "More (1 changed)"


def test_more_stays_open_when_the_method_changes_and_opens_for_an_error(form, qtbot):
    form.show()
    form.use(METHODS["l1_unstructured"])
    qtbot.waitUntil(form.fold.button.isVisible)
    assert not form._fields["importance"].isVisible()
    qtbot.mouseClick(form.fold.button, Qt.MouseButton.LeftButton)
    assert form._fields["importance"].isVisible()
    form.use(METHODS["ln_structured"])
    qtbot.waitUntil(form._fields["n"].isVisible)
    qtbot.mouseClick(form.fold.button, Qt.MouseButton.LeftButton)
    assert not form._fields["n"].isVisible()
    form._fields["n"].set_value("two")
    assert form.method() is None
    assert form._messages["n"].isVisible()


def test_values_of_fields_that_two_methods_share_are_kept(form):
    form.show_method(METHODS["l1_unstructured"](amount=0.3, amount_of="total", scope="global"))
    form.use(METHODS["random_structured"])
    assert form.method() == METHODS["random_structured"](
        amount=0.3, amount_of="total", scope="global"
    )


def test_values_of_fields_with_another_type_are_not_kept(form):
    form.show_method(METHODS["l1_unstructured"](scope="row", amount=0.25))
    form.use(METHODS["ln_structured"])
    form._fields["n"].set_value("inf")
    assert form.method() == METHODS["ln_structured"](amount=0.25, n="inf")
    form.use(METHODS["n_m"])
    assert form.method() == METHODS["n_m"]()


@pytest.mark.parametrize("name", ["layers", "experts"])
def test_units_are_listed_or_ranked_by_a_file(form, page, name, tmp_path, monkeypatch):
    form.use(METHODS[name])
    assert form.method() is None
    assert "importance and amount" in page.message(name)
    path = str(tmp_path / "scores.safetensors")
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (path, ""))
    page.row("importance").findChild(QToolButton).click()
    page.row("amount").set_value(2)
    assert form.method() == METHODS[name](importance=path, amount=2)

    ranking = [page.row(one) for one in ("importance", "amount", "reduction")]
    page.enter(**{name: "1, 3"})
    assert form.method() == METHODS[name].model_validate({name: [1, 3]})
    assert not any(field.isEnabled() for field in ranking)
    page.enter(**{name: ""})
    assert form.method() == METHODS[name](importance=path, amount=2)
    assert all(field.isEnabled() for field in ranking)
    form.show_method(METHODS[name].model_validate({name: [0]}))
    assert not page.row("amount").isEnabled()


@pytest.mark.usefixtures("decimal_comma")
def test_a_threshold_is_typed_and_shown_with_the_decimal_sign_of_the_locale(form, page):
    form.show_method(METHODS["threshold"](value=0.125))
    assert page.shown("value") == "0,125"
    for text, value in {"0,5": 0.5, "0.25": 0.25, "1,5e-3": 0.0015, "1.125": 1.125}.items():
        page.enter(value=text)
        assert form.method() == METHODS["threshold"](value=value)


@pytest.mark.usefixtures("decimal_comma")
@given(norms)
def test_the_shown_text_of_a_norm_parses_to_it_with_a_decimal_comma(norm):
    method = METHODS["ln_structured"](n=norm)
    form = MethodForm()
    form.show_method(method)
    box = form._fields["n"].findChild(QComboBox)
    shown = box.currentText()
    box.setEditText("")
    box.setEditText(shown)
    assert form.method() == method
    form.deleteLater()


@pytest.mark.parametrize(
    "text", ["m must be at least n", "分组大小m不能小于保留个数n", "n不能大于m。"]
)
def test_the_field_of_a_problem_is_found_in_any_language(text):
    assert _field_of(METHODS["n_m"], (), text) == "m"


def test_a_field_of_a_plug_in_does_not_get_the_texts_of_a_built_in_field_of_that_name(form):
    plugin = create_model("Plugin", __base__=Method, value=(float, 0.5), n=(int, 2))
    plugin.name, plugin.unit = "plugin", "entry"
    form.use(plugin)
    labels = {label.text() for label in form.findChildren(QLabel)}
    assert {"Value", "N"} <= labels
    assert plugin(value=1.5).options_text() == "value 1.5"


@given(st.lists(st.integers(0, 40), min_size=1, unique=True))
def test_the_shown_text_of_channels_parses_to_them(channels):
    assert METHODS["channels"](channels=format_ranges(channels)).channels == tuple(channels)


@pytest.mark.parametrize(
    ("method", "typed", "field", "said", "corrected"),
    [
        ("custom_from_mask", {}, "mask", "Required.", {"mask": "masks.pt"}),
        ("threshold", {}, "value", "Required.", {"value": "1"}),
        ("threshold", {"value": "-1"}, "value", "", {"value": " 0.25"}),
        ("threshold", {"value": "nan"}, "value", "", {"value": "1e-3"}),
        ("threshold", {"value": "0,5"}, "value", "", {"value": "0.5"}),
        ("n_m", {"n": 5}, "m", "m must be at least n", {"n": 2}),
        ("ln_structured", {"n": "two"}, "n", "norm's order p", {"n": "inf"}),
        ("l1_unstructured", {"max_sparsity": 150}, "max_sparsity", "150 %", {"max_sparsity": 90}),
        (
            "l1_unstructured",
            {"importance": "scores.pt", "moved_from": "before.pt"},
            "moved_from",
            "cannot be combined",
            {"importance": ""},
        ),
        ("channels", {"channels": "0-2, x"}, "channels", "'x'", {"channels": "0-2"}),
    ],
)
def test_a_problem_is_shown_below_its_field_until_it_is_corrected(
    form, page, method, typed, field, said, corrected
):
    form.use(METHODS[method])
    page.enter(**typed)
    assert form.method() is None
    assert said in page.message(field) != ""
    assert not any(page.message(other) for other in METHODS[method].model_fields if other != field)
    page.enter(**corrected)
    assert form.method() is not None
    assert page.message(field) == ""


def test_every_change_of_a_field_emits_changed(form, page, qtbot):
    form.use(METHODS["ln_structured"])
    values = {"amount": 20, "dim": "1", "n": "inf", "importance": "scores.pt"}
    for name, value in values.items():
        with qtbot.waitSignal(form.changed):
            page.enter(**{name: value})
    with qtbot.waitSignal(form.changed):
        choose(page.row("amount_of").findChild(QComboBox), "remaining")
    assert form.method() == METHODS["ln_structured"](
        amount=0.2, dim=1, n="inf", importance="scores.pt"
    )


class TestAmount:
    @pytest.fixture
    def field(self, qtbot):
        made = AmountField("entry")
        qtbot.addWidget(made)
        made.show()
        return made

    def test_slider_and_box_follow_each_other(self, field):
        slider, box = field.findChild(QSlider), field.findChild(QDoubleSpinBox)
        slider.setValue(125)
        assert (field.value(), box.text()) == (0.125, "12.5 %")
        box.setValue(37.5)
        assert (field.value(), slider.value()) == (0.375, 375)

    def test_the_text_is_not_reformatted_while_typing(self, field, qtbot):
        box = field.findChild(QDoubleSpinBox)
        box.setFocus()
        box.selectAll()
        qtbot.keyClicks(box, "12.05")
        assert box.text() == "12.05"
        assert field.value() == pytest.approx(0.1205)

    @pytest.mark.parametrize(
        ("typed", "share"),
        [
            *((text, 0.9) for text in ("90", "90 %", "0.9", "0,9", "90.00")),
            *((text, 0.009) for text in ("0.9 %", "00.90%")),
            ("12.05", 0.1205),
            ("1.0", 1.0),
            ("1", 0.01),
        ],
    )
    def test_a_share_is_typed_as_a_percentage_or_a_fraction(self, field, qtbot, typed, share):
        box = field.findChild(QDoubleSpinBox)
        box.selectAll()
        qtbot.keyClicks(box, typed)
        assert field.value() == pytest.approx(share)
        qtbot.keyClick(box, Qt.Key.Key_Return)
        assert box.text() == f"{share * 100:g} %"

    def test_more_than_100_percent_stays_and_is_an_error(self, field, qtbot):
        box = field.findChild(QDoubleSpinBox)
        box.selectAll()
        qtbot.keyClicks(box, "150")
        assert field.error() == "150 % is too much: a share is at most 100 %."
        qtbot.keyClick(box, Qt.Key.Key_Return)
        assert box.text() == "150 %"
        qtbot.keyClick(box, Qt.Key.Key_Up)
        assert (box.text(), field.error()) == ("100 %", "")

    @pytest.mark.usefixtures("decimal_comma")
    @pytest.mark.parametrize("typed", ["12,05", "12.05"])
    def test_a_share_has_the_decimal_sign_of_the_locale(self, qtbot, typed):
        field = AmountField("entry")
        qtbot.addWidget(field)
        box = field.findChild(QDoubleSpinBox)
        field.set_value(0.125)
        assert box.text() == "12,5 %"
        box.selectAll()
        qtbot.keyClicks(box, typed)
        assert box.text() == "12,05"
        assert field.value() == pytest.approx(0.1205)

    def test_a_number_of_units_is_an_integer_without_a_slider(self, field):
        kind = field.findChild(QComboBox)
        assert [kind.itemText(i) for i in range(2)] == ["share", "weights"]
        kind.setCurrentIndex(1)
        kind.activated.emit(1)
        assert field.value() == 1
        assert isinstance(field.value(), int)
        assert field.findChild(QSlider).isHidden()
        field.findChild(QDoubleSpinBox).setValue(5_000_000_000)
        assert field.value() == 5_000_000_000
        kind.activated.emit(0)
        assert field.value() == 0.5


@pytest.mark.parametrize(
    ("method", "name", "digits", "value"),
    [
        ("l1_unstructured", "amount", "۶۰", 0.6),
        ("l1_unstructured", "max_sparsity", "٠٫٩", 0.9),  # noqa: RUF001
        ("n_m", "n", "३", 3),
    ],
)
def test_digits_of_any_script_are_accepted(form, page, method, name, digits, value):
    form.use(METHODS[method])
    box = page.row(name).findChild(QAbstractSpinBox)
    box.selectAll()
    box.lineEdit().insert(digits)
    assert page.row(name).value() == value
    assert box.text().isascii()
