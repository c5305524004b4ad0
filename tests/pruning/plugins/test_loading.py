"""Loading of files and packages of methods, and errors of invalid ones."""

import os
import sys
import textwrap
from importlib.metadata import EntryPoint
from typing import Literal, get_args, get_origin

import pytest
import torch
from python_process import run_python

from prune_gui.errors import PluginError
from prune_gui.pruning.methods import METHODS
from prune_gui.pruning.plugins import load_file, load_installed, load_methods

GOOD = """
class {name}(prune.BasePruningMethod):
    PRUNING_TYPE = "unstructured"
    def compute_mask(self, t, default_mask):
        return default_mask
"""


def one(body, parameters="", kind='"unstructured"', more="pass"):
    """Return source of a class whose `compute_mask` is one expression."""
    return f"""
class Odd(prune.BasePruningMethod):
    PRUNING_TYPE = {kind}
    def __init__(self{parameters}):
        {more}
    def compute_mask(self, t, default_mask):
        return {body}
"""


def test_the_example_plug_in_is_a_complete_method(plugin_file, nearest_mean):
    [method] = load_methods(nearest_mean)
    assert METHODS["nearest_mean"] is method
    assert (method.name, method.title, method.unit) == ("nearest_mean", "Nearest mean", "entry")
    assert method.source == str(nearest_mean)
    assert method.__doc__.startswith("Prune the weights nearest to the mean")
    assert dict(method()) == {"amount": 0.5, "scope": "local", "seed": 0}
    assert list(method.model_fields) == ["amount", "scope", "seed"]
    assert method.model_validate(method(amount=3).model_dump(mode="json")) == method(amount=3)
    assert all(field.description for field in method.model_fields.values())


def test_fields_are_the_parameters_of_the_constructor(plugin_file):
    path = plugin_file(
        '''
        from __future__ import annotations
        from typing import Literal, Optional
        class AllSorts(prune.BasePruningMethod):
            """Prune nothing.

            Args:
                share (float): Of what is left.
            """
            PRUNING_TYPE = "structured"
            def __init__(self, amount, dim=-1, share: float = 1, wide=False, times=2, *,
                         how: Literal["up", "down"] = "up", word: Optional[str] = None, **rest):
                self.dim = dim
            def compute_mask(self, t, default_mask):
                return default_mask
        '''.replace("\n        ", "\n")
    )
    path.write_text(path.read_text().replace("from __future__ import annotations", ""))
    path.write_text("from __future__ import annotations\n" + path.read_text())
    [method] = load_file(path)
    assert (method.name, method.unit) == ("all_sorts", "channel")
    assert dict(method()) == {
        "amount": 0.5, "dim": -1, "share": 1, "wide": False, "times": 2, "how": "up",
        "word": None, "seed": 0,
    }  # fmt: skip
    fields = method.model_fields
    assert [fields[name].annotation for name in ("share", "wide", "times")] == [float, bool, int]
    assert get_origin(fields["how"].annotation) is Literal
    assert get_args(fields["how"].annotation) == ("up", "down")
    assert fields["share"].description == "Of what is left."
    for wrong in ({"amount": 1.5}, {"times": 2.5}, {"wide": 1}, {"how": "in"}, {"rest": 1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            method.model_validate(wrong)


def test_only_concrete_public_classes_of_the_file_are_methods(plugin_file):
    path = plugin_file(
        GOOD.format(name="Mine")
        + GOOD.format(name="_Hidden")
        + "class Base(prune.BasePruningMethod): pass\n"
        + "from torch.nn.utils.prune import Identity\nAgain = Mine\n"
        + "from prune_gui.pruning import BasePruningMethod as Ours\n"
        + GOOD.format(name="Own").replace("prune.BasePruningMethod", "Ours")
    )
    assert [method.name for method in load_file(path)] == ["mine", "own"]
    assert "mine" not in METHODS


def test_reloading_a_file_replaces_its_methods(plugin_file):
    [first] = load_methods(plugin_file(GOOD.format(name="Mine")))
    load_methods(plugin_file(GOOD.format(name="Other"), "other.py"))
    both = GOOD.format(name="Mine") + GOOD.format(name="New")
    load_methods(plugin_file(both))
    assert METHODS["mine"] is not first
    load_methods(plugin_file(GOOD.format(name="New")))
    assert [name for name in METHODS if METHODS[name].source != "built-in"] == ["other", "new"]
    new = METHODS["new"]
    with pytest.raises(PluginError):
        load_methods(plugin_file("raise ValueError"))
    assert METHODS["new"] is new
    with pytest.raises(TypeError):
        METHODS["mine"] = METHODS["identity"]  # type: ignore[index]


def test_loading_writes_no_files_and_does_not_change_torch(plugin_file, tmp_path, capfd):
    path = plugin_file("torch.manual_seed(1)\nprint('hello')\n" + GOOD.format(name="Mine"))
    torch.manual_seed(5)
    before = torch.get_rng_state()
    load_file(path)
    assert torch.equal(torch.get_rng_state(), before)
    assert list(tmp_path.iterdir()) == [path]
    assert capfd.readouterr() == ("", "hello\n")  # standard output may be JSON


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("1 / 0", r"own\.py raised ZeroDivisionError: division by zero\. Correct it"),
        ("raise ValueError('one\\ntwo')", "raised ValueError: one two"),
        ("raise ValueError('x' * 10_000)", "raised ValueError: xxx"),
        ("raise ValueError('\\x1b[31mred')", r"ValueError: \\x1b\[31mred"),
        ("import sys; sys.exit(0)", "called sys.exit"),
        ("import a_package_nobody_has", "No module named 'a_package_nobody_has'"),
        ("def broken(:", "is not valid Python, see line 3"),
        ("\0", "is not valid Python|raised"),
        ("x = " + "(" * 500 + ")" * 500, "is not valid Python|raised"),
        ("x = 3", "defines no pruning method"),
        ("class Half(prune.BasePruningMethod): PRUNING_TYPE = 'global'", "defines no pruning"),
        (one("default_mask", kind="'some'"), "Odd has the PRUNING_TYPE 'some': set it to"),
        (one("default_mask", kind="None"), "Odd has the PRUNING_TYPE None"),
        (one("default_mask", kind="['global']"), "Odd has the PRUNING_TYPE"),
        (one("default_mask", kind="'structured'"), "no `dim`: set self.dim"),
        (one("default_mask", ", x"), "'x' that a recipe cannot store: annotate it as int"),
        (one("default_mask", ", x=None"), "'x' that a recipe cannot store"),
        (one("default_mask", ", x: torch.Tensor = None"), "'x' that a recipe cannot store"),
        (one("default_mask", ", x: 'Unknown' = 1"), "raised NameError"),
        (one("default_mask", ", targets=1"), "'targets', a name that every step uses"),
        (one("default_mask", ", unit=1"), "'unit', a name that every step uses"),
        (one("default_mask", ", plugin=1"), "'plugin', a name that every step uses"),
        (one("default_mask", ", copy=1"), "'copy', a name that every step uses"),
        (one("default_mask", ", amount=2.5"), "'amount' whose default is not a value of.*share"),
        (one("default_mask", more="raise OSError('no disk')"), "Odd raised OSError: no disk"),
        (one("1 / 0"), "Odd raised ZeroDivisionError"),
        (one("exit(2)"), "Odd called sys.exit"),
        (one("None"), "returned a NoneType in place of a mask"),
        (one("default_mask[:1]"), r"shape \(6, 5\), but returned a mask of shape \(1, 5\)"),
        (one("default_mask * 0.5"), "values other than 0 and 1"),
        (one("default_mask * float('nan')"), "values other than 0 and 1"),
        (
            "import os\n" + one("torch.frombuffer(bytearray(os.urandom(t.numel())), "
                                "dtype=torch.uint8).view(t.shape) > 127"),
            "different masks under the same seed",
        ),
        (GOOD.format(name="Identity"), "the name identity is already in use .built-in."),
        (GOOD.format(name="ABc") + GOOD.format(name="A_bc"), "the name a_bc is already in use"),
    ],
)  # fmt: skip
def test_invalid_methods_are_refused_by_name_in_one_line(plugin_file, source, says):
    path, before = plugin_file(source), dict(METHODS)
    with pytest.raises(PluginError, match=says) as caught:
        load_methods(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 800
    assert before == METHODS


def test_an_unreadable_file_is_named(tmp_path):
    for path in (tmp_path / "nowhere.py", tmp_path):
        with pytest.raises(PluginError, match=f"^{path} cannot be read"):
            load_file(path)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Return a function that installs a package with entry points into a folder on `sys.path`."""

    def install(points: str, source: str = GOOD.format(name="Packed")) -> str:
        site = tmp_path / "site"
        info = site / "own_methods-1.2.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-methods\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[prune_gui.methods]\n{textwrap.dedent(points)}")
        beginning = "from torch.nn.utils import prune\n"
        (site / "own_methods_of_a_test.py").write_text(beginning + source)
        return str(site)

    return install


@pytest.mark.parametrize("value", ["own_methods_of_a_test", "own_methods_of_a_test:Packed"])
def test_an_entry_point_is_a_class_or_a_module_of_classes(package, monkeypatch, value):
    monkeypatch.syspath_prepend(package(f"some = {value}"))
    [method] = load_installed(EntryPoint("some", value, "prune_gui.methods"))
    assert (method.name, method.source) == ("packed", f"{value}, entry point some")
    assert "own_methods_of_a_test" not in sys.modules


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("nobody_has_this", "raised ModuleNotFoundError: No module named 'nobody_has_this'"),
        ("os:path_to_nothing", "raised AttributeError"),
        ("os", "defines no pruning method"),
        ("os:getcwd", "defines no pruning method"),
    ],
)
def test_an_invalid_entry_point_is_named(value, says):
    with pytest.raises(PluginError, match=f"^{value}, entry point some.*{says}"):
        load_installed(EntryPoint("some", value, "prune_gui.methods"))


@pytest.mark.slow
def test_recipes_find_installed_methods_automatically(package):
    site = package("good = own_methods_of_a_test\nbad = own_methods_of_a_test:Nothing\n")
    output = run_python(
        """
        import prune_gui
        recipe = prune_gui.Recipe.from_yaml("steps: [{method: packed, targets: ['*']}]")
        print(recipe.steps[0].method.source)
        from prune_gui.pruning.plugins import use_installed
        print(*use_installed(), *use_installed())
        """,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([site, *sys.path])},
    )
    source, problem = output.splitlines()
    assert source == "own-methods 1.2, entry point good"
    assert problem.count("own-methods 1.2, entry point bad raised AttributeError") == 2
