"""The text field for the amounts of single targets."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QLocale, Qt
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QPlainTextEdit

from prune_gui.gui.draft.form import MethodBox, MethodForm, method_icon
from prune_gui.pruning.methods import METHODS
from prune_gui.pruning.methods.fields import GROUPS
from prune_gui.recipe.patterns import exact_pattern

patterns = st.sampled_from(["*", "a.*", "!b", "dims=2", "x size>=1k"]) | st.text(
    st.characters(categories=["L", "N", "P", "S"]), min_size=1
).map(exact_pattern)
counts = st.integers(0, 2**40)
amounts = st.dictionaries(
    patterns, st.integers(0, 2**40).map(lambda n: n / 2**40) | counts, min_size=1
)


@pytest.fixture
def form(qtbot):
    made = MethodForm()
    qtbot.addWidget(made)
    made.use(METHODS["l1_unstructured"])
    return made


@pytest.fixture(params=["en_US", "de_DE"])
def locale(request, qapp):
    QLocale.setDefault(QLocale(request.param))
    yield
    QLocale.setDefault(QLocale.system())


def text_of(form):
    return form._fields["amounts"].findChild(QPlainTextEdit)


@pytest.mark.usefixtures("locale")
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(amounts)
def test_typing_the_text_of_some_amounts_gives_them_again(form, own):
    method = METHODS["l1_unstructured"](amounts=own)
    form.show_method(method)
    assert form.method() == method
    shown = text_of(form).toPlainText()
    text_of(form).setPlainText("")
    assert form.method().amounts is None
    text_of(form).setPlainText(f"\n{shown}\n\n")
    assert form.method() == method


def test_shares_and_counts_are_typed_as_elsewhere(form):
    text_of(form).setPlainText("a=30 %\nb = 0.3\nc = 3\ndims=2 = 1\na = 40%")
    assert form.method().amounts == {"b": 0.3, "c": 3, "dims=2": 1, "a": 0.4}
    assert list(form.method().amounts)[-1] == "a"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a", "Write a pattern, = and an amount in each line: encoder.* = 30 %"),
        ("a = half", "Write a pattern, = and an amount in each line: encoder.* = 30 %"),
        ("= 30 %", "Write a pattern, = and an amount in each line: encoder.* = 30 %"),
        ("a = 130 %", "A share must lie between 0.0 and 1.0; write a whole number for a count"),
        ("size>x = 1", "size>x is not a condition"),
    ],
)
def test_a_line_that_cannot_be_used_has_a_message(form, line, message):
    text_of(form).setPlainText(f"ok = 1\n{line}")
    assert form.method() is None
    assert form._messages["amounts"].text().startswith(message)


def test_own_amounts_are_off_while_all_targets_are_ranked_together(form):
    text_of(form).setPlainText("a = 1")
    form.set_value("scope", "global")
    assert form.method() == METHODS["l1_unstructured"](scope="global")
    assert not text_of(form).isEnabled()
    form.set_value("scope", "local")
    assert form.method().amounts == {"a": 1}
    form.use(METHODS["ln_structured"])
    assert form.method().amounts == {"a": 1}


@pytest.fixture
def box(qtbot):
    made = MethodBox()
    qtbot.addWidget(made)
    return made


def test_every_method_is_below_the_title_of_its_group(box):
    titles = {str(title): group for group, title in GROUPS.items()}
    group, listed = None, {}
    for index in range(box.count()):
        if (name := box.itemData(index)) is None:
            group = titles[box.itemText(index)]
        else:
            listed[name] = group
    assert listed == {name: method.method_group for name, method in METHODS.items()}


def test_keys_skip_the_titles_of_groups(box, qtbot):
    chosen = []
    for _ in range(len(METHODS)):
        chosen.append(box.currentData())
        qtbot.keyClick(box, Qt.Key.Key_Down)
    assert chosen[0] == next(iter(METHODS))
    assert set(chosen) == set(METHODS)


def test_every_method_has_an_icon_of_its_own(qapp):
    def pixels(icon: QIcon) -> bytes:
        return icon.pixmap(32).toImage().constBits().tobytes()

    icons = {pixels(method_icon(method)) for method in METHODS.values()}
    assert len(icons) == len(METHODS)
