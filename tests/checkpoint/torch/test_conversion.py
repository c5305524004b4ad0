"""The refusal of files that need code, with lines of code only if no name in it is dangerous."""

from __future__ import annotations

import ast
import pickle
from pathlib import Path

import pytest
import torch
from corpus_forms import LEGACY, PREAMBLE, STATE, archive, dictionary, file, name, tensor, text
from corpus_payloads import KINDS, Net, payload

from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.torch.conversion import conversion_lines
from prune_gui.checkpoint.torch.pickle_names import is_dangerous, is_harmless
from prune_gui.errors import CheckpointError

ATTACKS = [
    *("posix.system", "nt.system", "os.popen", "subprocess.Popen", "subprocess.check_output"),
    *("builtins.eval", "builtins.exec", "builtins.compile", "builtins.open", "builtins.getattr"),
    *("builtins.__import__", "runpy.run_path", "socket.create_connection", "shutil.rmtree"),
    *("importlib.import_module", "pty.spawn", "webbrowser.open", "ctypes.CDLL", "os.path.os"),
    *("urllib.request.urlopen", "requests.get", "requests.Session", "pickle.loads", "io.open"),
    *("torch.load", "torch.serialization.load", "torch.hub.load", "torch.jit.load", "numpy.load"),
    *("operator.attrgetter", "_operator.methodcaller", "pathlib.Path.write_text", "sys.exit"),
    *("torch.package.PackageImporter", "torch._C.PyTorchFileWriter", "psutil.Popen"),
    *("torch.utils.tensorboard.SummaryWriter", "torch.distributed.TCPStore", "code.interact"),
    *("torch.nn.modules.module.os.system", "mynet.train.subprocess.Popen", "zipfile.ZipFile"),
    *(
        "mynet.Net.__init__.__globals__",
        "numpy.lib.npyio.open",
        "joblib.load",
        "pandas.read_pickle",
    ),
]
UNKNOWN = [
    *("mynet.build", "functools.partial", "builtins.map", "torch.nn.init.xavier_normal_"),
    *("torch.storage._load_from_bytes", "torch.Unheard", "numpy.DataSource", "email.Message"),
    *("torch.nn.parallel.distributed.dist.TCPStore", "torch.nn.Linear", "a b.C", "a\n.B", "Net"),
    "extension number 7",
]
HARMLESS = [
    *("torch.nn.modules.linear.Linear", "torch.optim.sgd.SGD", "torch.nn.parameter.Parameter"),
    *("torch.optim.lr_scheduler.StepLR", "__main__.Net", "models.yolo.Model", "a.B"),
    *("transformers.models.bert.modeling_bert.BertModel", "argparse.Namespace"),
    *("pathlib.PosixPath", "numpy.core.multiarray._reconstruct", "collections.defaultdict"),
]


@pytest.mark.parametrize("path", ATTACKS)
def test_names_that_run_code_or_use_files_or_the_network_are_dangerous(path):
    assert is_dangerous(path)
    assert not is_harmless(path)


@pytest.mark.parametrize("path", UNKNOWN)
def test_unknown_names_are_neither_dangerous_nor_harmless(path):
    assert not is_dangerous(path)
    assert not is_harmless(path)


@pytest.mark.parametrize("path", HARMLESS)
def test_classes_of_models_are_harmless(path):
    assert is_harmless(path)


def refusal(path: Path) -> str:
    with pytest.raises(CheckpointError) as refused:
        open_checkpoint(path)
    return str(refused.value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{}, LEGACY], ids=["zip", "legacy"])
def test_an_attack_is_reported_and_no_code_is_shown(tmp_path, kind, options):
    path = tmp_path / "m.pt"
    torch.save({"net": Net(), "extra": payload(tmp_path, kind)}, path, **options)
    message = refusal(path)
    assert "looks like an attack" in message
    assert "\n" not in message
    assert "torch.load(" not in message


@pytest.mark.parametrize("path", ATTACKS)
def test_no_code_is_shown_for_a_dangerous_name_beside_a_harmless_class(tmp_path, path):
    opcodes = dictionary(s=dictionary(w=tensor()), a=name("a.B") + b")R", b=name(path) + b")R")
    message = refusal(archive(opcodes)(tmp_path))
    assert path in message.partition(" to open")[0]
    assert "\n" not in message


def test_no_code_is_shown_for_an_unknown_function(tmp_path):
    message = refusal(archive(dictionary(w=tensor(), f=name("mynet.build") + b")R"))(tmp_path))
    assert "the code of mynet.build" in message
    assert "is unknown" in message
    assert "\n" not in message


def test_no_code_is_shown_for_a_pickle_that_cannot_be_read_to_its_end(tmp_path):
    message = refusal(archive(name("a.B") + b")R" + b"0" * 9 + name("os.system") + b"R")(tmp_path))
    assert "the code of a.B" in message
    assert "\n" not in message


def test_no_code_is_shown_if_another_pickle_of_the_file_is_an_attack(tmp_path):
    parts = (*PREAMBLE[:2], Net())
    attack = pickle.dumps(payload(tmp_path, "os.mkdir"), 2)
    head = b"".join(pickle.dumps(part, 2) for part in parts[:2])
    message = refusal(file(head + pickle.dumps(Net, 2) + attack + pickle.dumps([], 2))(tmp_path))
    assert "the code of posix.mkdir (and 1 more)" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    "key",
    ['a"]+__import__("os").system("id")#', "a'b", "a\\", 'a\\"]+exit()#', "\n", "\u202e", "k" * 99],
)
def test_a_key_cannot_break_out_of_the_line_that_saves_the_weights(tmp_path, key):
    path = tmp_path / "m.pt"
    torch.save({key: STATE, "net": Net}, path)
    _, *code = refusal(path).split("\n")
    assert [line.strip()[:12] for line in code] == ["import torch", "model = torc", "torch.save(m"]
    saved = ast.parse(code[2].strip(), mode="eval").body
    assert isinstance(saved, ast.Call)
    (subscript,) = (node for node in ast.walk(saved) if isinstance(node, ast.Subscript))
    assert isinstance(subscript.slice, ast.Constant)
    assert subscript.slice.value in (key, ...)
    assert code[2].isprintable()


@pytest.mark.parametrize("file_name", ['a".pt', "a\\.pt", "a\n.pt", "\u202e.pt", "\u3164.pt"])
def test_a_file_name_cannot_break_out_of_the_line_that_loads_it(file_name):
    _, load, _ = conversion_lines(Path(file_name), "torch")
    assert load == "model = torch.load(path, weights_only=False)"


def test_text_in_a_pickle_is_not_interpreted_as_code(tmp_path):
    message = refusal(
        archive(dictionary(w=tensor(), n=name("a.B") + text("os.system") + b"\x85R"))(tmp_path)
    )
    assert message.count("\n") == 3
