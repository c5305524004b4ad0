"""What is said about the code that a file names."""

import pytest

from prune_gui.checkpoint.named_code import code_statement, runs_programs


def full_width(text: str) -> str:
    """Return letters that Python reads as the ASCII letters of a text."""
    return "".join(chr(ord(letter) + 0xFEE0) if letter.isalpha() else letter for letter in text)


RUNNING = [
    *("os.system", "posix.system", "nt.system", "subprocess.Popen", "builtins.exec"),
    *("builtins.eval", "builtins.__import__", "importlib.import_module", "runpy.run_path"),
    *("pty.spawn", "ctypes.CDLL", "__main__.os.system", "__main__.__builtins__.exec"),
    *("torch.os.system", "torch.utils.cpp_extension.subprocess.run", "torch.hub.load"),
    *("pickle.loads", "_pickle.loads", "torch.storage._load_from_bytes", "builtins.getattr"),
    *("operator.attrgetter", "sympy.simplify", "sympy.core.sympify.sympify", "types.CodeType"),
    *("jinja2.environment.Environment", "yaml.unsafe_load_all", "dill._dill._create_function"),
    *("mynet.Net.__init__.__globals__", "builtins.object.__subclasses__", "pip._internal.main"),
    *(full_width("os.system"), f"builtins.{full_width('exec')}"),
]
NOT_RUNNING = [
    *("argparse.Namespace", "omegaconf.DictConfig", "torch.torch_version.TorchVersion"),
    *("typing.Any", "mymodel.optimizer.Compiled", "models.yolo.Model", "functools.partial"),
    *("re._compile", "enum.Enum", "mymodel.code.Model", "lightning.eval.exec", "numpy.dtype"),
    *("numpy.random._pickle.__generator_ctor", "openfold.data.pdb.Chain", "networks.pip.Net"),
    *("mynet.globals.Settings", "models.nt.Transformer", "mynet.commands.Run"),
    *("pathlib.PosixPath", "torch.distributed.tensor.DTensor", "torch.nn.Linear"),
]


@pytest.mark.parametrize("name", RUNNING)
def test_names_that_run_programs_are_told_in_strong_words(name):
    assert runs_programs(["argparse.Namespace", name]) == (name,)
    statement = code_statement(["argparse.Namespace", name])
    assert "can run any program" in statement
    assert name in statement
    assert statement.count("weights_only=False") == 1


@pytest.mark.parametrize("name", NOT_RUNNING)
def test_other_names_are_told_plainly(name):
    assert runs_programs([name]) == ()
    statement = code_statement([name, name])
    assert f"names code of {name.partition('.')[0]}. Prune GUI runs none of it" in statement
    assert "program." not in statement


def test_a_file_without_names_needs_no_statement():
    assert code_statement([]) == ""


def test_source_code_in_the_file_is_told():
    assert "contains source code" in code_statement(["torch.fx.graph_module.reduce_graph_module"])


def test_long_and_many_names_make_a_short_statement():
    assert len(code_statement([f"{i}" * 900 + ".x" for i in range(900)])) < 590
    assert len(code_statement([f"os.{i}" * 900 for i in range(900)])) < 590
