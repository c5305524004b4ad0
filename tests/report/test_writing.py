"""The page of a report is valid, self-contained and small, whatever the file contains."""

from __future__ import annotations

import csv as csv_module
import io
import re
from html.parser import HTMLParser

import pytest
import torch

from prune_gui.report.layer_table import MAX_LAYERS, csv
from prune_gui.report.pictures import overview
from prune_gui.report.records import FileRecord, Layer, Report, StepRecord
from prune_gui.report.writing import html_page

VOID = {"meta", "wbr"}
HOSTILE = "</title><script>alert(1)</script>&\n\u202egnp\x1b[2J\"'`=1+1"


class Page(HTMLParser):
    """Checks that tags are balanced, and collects tags, attributes and text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def layer(name: str, zeros: int = 0, total: int = 6, shape=(2, 3), **fields) -> Layer:
    values = {"by_code": {255: zeros} if zeros else {}, "dead_channels": 0, "patterns": None}
    values |= {"energy": 1.0, "energy_before": None, "energy_kept": None, "warnings": ()}
    return Layer(name, shape, "float32", total, zeros, **(values | fields))


def report(*layers: Layer, name="model.safetensors", **fields) -> Report:
    values = {"folder": "", "format": "safetensors", "description": "", "files": 1, "nbytes": 24}
    values |= {"tensors": len(layers), "fingerprint": "sha256:12ab", "made_by": "", "form": ""}
    values |= {
        "input": "",
        "reference": "",
        "covers_reference": True,
        "recorded": (),
        "steps": (),
        "retraced": False,
        "calibration": "",
    }
    values |= {"recipe": "", "load_code": ("import torch",), "layers": layers, "warnings": ()}
    file = FileRecord(label="A", name=name, **(values | fields))
    return Report((file,), (), {"torch": "2"}, "2026-01-01 00:00")


def test_the_page_loads_nothing_and_runs_nothing(report_on):
    files = [{"layer.0.weight": torch.eye(4), "layer.1.weight": torch.ones(4, 4)}] * 2
    page = html_page(report_on(*files))
    parsed = Page(page)
    assert not parsed.tags & {"script", "link", "img", "iframe", "object", "base", "form"}
    names = {name for name, _ in parsed.attributes}
    assert not [name for name in names if name.startswith("on")]
    assert not names & {"href", "src", "srcset", "action"}
    assert not re.search(r"https?:|url\(|@import", page)
    assert "default-src 'none'" in page


def test_hostile_texts_are_shown_as_text():
    step = StepRecord(1, HOSTILE, HOSTILE, HOSTILE, enabled=True, notes=(HOSTILE,))
    hostile = report(
        layer(HOSTILE, 3, warnings=(HOSTILE,)),
        layer(f"a.0.{HOSTILE}"),
        name=HOSTILE,
        folder=HOSTILE,
        description=HOSTILE,
        reference=HOSTILE,
        recorded=(step,),
        recipe=f"steps: {HOSTILE}\nmore",
        made_by=HOSTILE,
        warnings=(HOSTILE,),
        load_code=(HOSTILE,),
    )
    page = html_page(hostile)
    assert "script" not in Page(page).tags
    assert not {"\u202e", "\x1b"} & set(page)
    assert "\\u202egnp\\x1b[2J" in "".join(Page(page).text)


@pytest.mark.slow
def test_a_page_on_100_000_layers_stays_small_and_the_csv_file_has_all():
    names = [f"model.layers.{i // 100}.experts.{i % 100}.projection.weight" for i in range(100_000)]
    layers = [layer(name, i % 6, warnings=("w",) * (i % 7 == 0)) for i, name in enumerate(names)]
    big = report(*layers)
    page = html_page(big)
    assert len(page.encode()) < 5_000_000
    assert page.count('<td class="name">') == MAX_LAYERS
    assert f"{100_000 - MAX_LAYERS:,} more layers are left out" in "".join(Page(page).text)
    rows = list(csv_module.DictReader(io.StringIO(csv(big))))
    assert [row["Name"] for row in rows] == names


def test_a_csv_cell_is_no_formula():
    [row] = csv_module.DictReader(io.StringIO(csv(report(layer("=1+1", 3)))))
    assert row["Name"] == "'=1+1"
    assert (row["Zeros"], row["Sparsity"], row["Kept energy"]) == ("3", "0.5", "")


def test_columns_without_a_known_value_are_left_out():
    without = html_page(report(layer("w", 3)))
    known = html_page(report(layer("w", 3, energy_before=2.0, energy_kept=1.0)))
    assert "Kept energy</th>" not in without
    assert "Kept energy</th>" in known
    assert "50.00 %" in known


@pytest.mark.parametrize("shape", [(), (5,)])
def test_tensors_that_are_no_matrices_need_no_picture(shape):
    assert "<h2>Sparsity of each matrix" not in html_page(report(layer("w", 0, 5, shape)))


def test_every_heading_is_translated(report_on, foreign_language):
    halves = [{"layer.0.a.weight": torch.eye(2), "layer.1.a.weight": torch.eye(2)}] * 2
    step = StepRecord(1, "", "", "", enabled=False)
    for page in map(html_page, (report_on(*halves), report(layer("w", 3), recorded=(step,)))):
        headings = re.findall(r"<(?:th|h[123]|summary)[^>]*>([^<]*)<", page)
        assert len(headings) > 10
        names = {"", "w", "layer.*", "0.a", "1.a", "A: in_memory.pt", "B: in_memory.pt"}
        assert {each for each in headings if "⟦" not in each} <= names


def test_the_model_card_says_how_the_file_was_pruned():
    step = StepRecord(1, "L1 unstructured", "global, 50 %", "a`b.*", True, 3, 6)
    made = report(layer("w", 3, by_code={1: 3}), steps=(step,))
    shown = "".join(Page(html_page(made)).text)
    assert "50.0% of the prunable parameters are zero (3 of 6)." in shown
    assert "1. L1 unstructured, global, 50 %; targets `a'b.*`; zeroed 3 of 6 (50.0%)" in shown


def test_every_matrix_has_a_tile_with_its_sparsity(report_on):
    half = torch.tensor([[0.0, 1.0], [0.0, 1.0]])
    tensors = {f"layer.{i}.{role}.weight": half for i in range(3) for role in ("up", "down")}
    tensors |= {"layer.0.up.bias": torch.zeros(2), "head.weight": torch.ones(2, 2)}
    titles = re.findall(r'<td class="d\d+" title="([^"]*)"', html_page(report_on(tensors)))
    assert sorted(titles) == sorted(
        f"{name}: {'0.0' if name == 'head.weight' else '50.0'} % (2 x 2)"
        for name in tensors
        if not name.endswith("bias")
    )


def test_matrices_beyond_the_limit_are_counted(report_on):
    tensors = {f"layer.{i}.{role}.weight": torch.ones(2, 2) for i in range(9) for role in "ab"}
    tables, omitted = overview(report_on(tensors).files[0].layers, max_tiles=5)
    assert (sum(len(row.names) for table in tables for row in table.rows), omitted) == (4, 14)
