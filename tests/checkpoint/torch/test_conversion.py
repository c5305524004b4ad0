"""The refusal of files that name dangerous code."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import torch
from corpus_forms import LEGACY, PREAMBLE, archive, call, dictionary, file, name, tensor, text
from corpus_payloads import KINDS, Net, payload

from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.torch.conversion import conversion_lines
from prune_gui.checkpoint.torch.pickle_names import is_dangerous, is_refused
from prune_gui.errors import CheckpointError

ATTACKS = [
    *("posix.system", "nt.system", "os.popen", "subprocess.Popen", "subprocess.check_output"),
    *("builtins.eval", "builtins.exec", "builtins.compile", "builtins.open"),
    *("builtins.__import__", "runpy.run_path", "socket.create_connection", "shutil.rmtree"),
    *("importlib.import_module", "pty.spawn", "webbrowser.open", "ctypes.CDLL", "os.path.os"),
    *("urllib.request.urlopen", "requests.get", "requests.Session", "pickle.loads", "io.open"),
    *("torch.load", "torch.serialization.load", "torch.hub.load", "torch.jit.load", "numpy.load"),
    *("operator.attrgetter", "_operator.methodcaller", "pathlib.Path.write_text", "sys.exit"),
    *("torch.package.PackageImporter", "torch._C.PyTorchFileWriter", "psutil.Popen"),
    *("torch.utils.tensorboard.SummaryWriter", "torch.distributed.TCPStore", "code.interact"),
    *("torch.nn.modules.module.os.system", "mynet.train.subprocess.Popen", "zipfile.ZipFile"),
    *("mynet.Net.__init__.__globals__", "numpy.lib.npyio.open", "joblib.load"),
    *("pandas.read_pickle", "torch.storage._load_from_bytes", "types.CodeType"),
    *(
        "types.FunctionType",
        "torch.nn.modules.module.__builtins__",
        "cloudpickle.cloudpickle._make_function",
        "dill._dill._create_code",
    ),
    *("torch.nn.parallel.distributed.dist.TCPStore", "torch.Tensor.tofile", "torch.from_file"),
    *("torch.utils.data.datapipes.utils.decoder.basichandlers", "torch.fx.graph_module._exec"),
    *("numpy.testing._private.utils.runstring", "numpy.f2py.crackfortran.myeval"),
    *("argparse._os.execv", "collections._sys.modules", "hydra.utils.instantiate"),
    "torch.fx.experimental.symbolic_shapes.ShapeEnv.evaluate_guards_expression",
]
UNKNOWN = [
    *("uuid._popen", "platform._syscmd_ver", "typing.ForwardRef._evaluate", "weakref.finalize"),
    *("dataclasses._create_fn", "numpy.DataSource", "numpy.fromregex", "torch.onnx.export"),
    *("builtins.map", "functools.reduce", "types.MethodType", "torch.profiler.profile"),
]
HARMLESS = [
    *("torch.nn.modules.linear.Linear", "torch.optim.sgd.SGD", "torch.nn.parameter.Parameter"),
    *("torch.optim.lr_scheduler.StepLR", "__main__.Net", "models.yolo.Model", "a.B"),
    *("transformers.models.bert.modeling_bert.BertModel", "argparse.Namespace", "mynet.build"),
    *("pathlib.PosixPath", "numpy.core.multiarray._reconstruct", "collections.defaultdict"),
    *("functools.partial", "torch.nn.functional.silu", "torch._C._nn.gelu", "logging.getLogger"),
    *("torch._C._VariableFunctionsClass.tanh", "_operator.add", "re._compile"),
    *("torch.fx._symbolic_trace.Tracer", "torch.fx.graph_module.GraphModule"),
    *("torch.fx.immutable_collections.immutable_dict", "torch.utils.data.dataset.Subset"),
    *("numpy.random._pickle.__generator_ctor", "numpy.float64", "numpy.dtypes.Float32DType"),
    *("torch._dynamo.eval_frame.OptimizedModule", "omegaconf.dictconfig.DictConfig", "io.BytesIO"),
]


@pytest.mark.parametrize("path", ATTACKS)
def test_names_that_run_code_or_use_files_or_the_network_are_dangerous(path):
    assert is_dangerous(path)


@pytest.mark.parametrize("path", HARMLESS)
def test_names_that_checkpoints_need_are_not_refused(path):
    assert not is_refused(path)


@pytest.mark.parametrize("path", UNKNOWN)
def test_unlisted_names_of_python_numpy_and_torch_are_refused(path):
    assert is_refused(path)
    assert not is_dangerous(path)


def test_a_file_with_an_unknown_name_is_refused_by_this_name(tmp_path):
    message = refusal(archive(dictionary(w=tensor(), f=name("uuid._popen") + b")R"))(tmp_path))
    assert "the code of uuid._popen to open" in message
    assert "The effect of that code is unknown" in message


def refusal(path: Path) -> str:
    with pytest.raises(CheckpointError) as refused:
        open_checkpoint(path)
    return str(refused.value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{}, LEGACY], ids=["zip", "legacy"])
def test_an_attack_beside_a_module_is_refused(tmp_path, kind, options):
    path = tmp_path / "m.pt"
    torch.save({"net": Net(), "extra": payload(tmp_path, kind)}, path, **options)
    assert "looks like an attack" in refusal(path)


@pytest.mark.parametrize("path", ATTACKS)
def test_the_dangerous_name_is_shown_before_those_of_harmless_classes(tmp_path, path):
    opcodes = dictionary(s=dictionary(w=tensor()), a=name("a.B") + b")R", b=name(path) + b")R")
    assert path in refusal(archive(opcodes)(tmp_path)).partition(" to open")[0]


def getattr_of(owner: bytes, attribute: bytes) -> bytes:
    """Return the opcodes for a call of getattr."""
    return call("builtins.getattr", owner, attribute)


NESTED_CLASS = getattr_of(name("mynet.Outer"), text("Inner"))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (getattr_of(name("torch.nn.modules.module"), text("os")), "torch.nn.modules.module.os"),
        (getattr_of(NESTED_CLASS, text("__globals__")), "mynet.Outer.Inner.__globals__"),
        (getattr_of(name("a.B") + b")R", text("__class__")), "a.B.__class__"),
        (getattr_of(text("x"), text("__class__")), "builtins.str.__class__"),
        (getattr_of(tensor(), text("tofile")), "torch.Tensor.tofile"),
        (getattr_of(name("a.B"), name("a.name") + b")R"), "builtins.getattr"),
        (call("functools.partial", name("builtins.getattr")), "builtins.getattr"),
        (call("functools.partial") + b"(" + name("builtins.getattr") + b")tb", "builtins.getattr"),
        (call("builtins.map", name("torch.fx.graph_module.reduce_graph_module")), "torch.fx"),
    ],
)
def test_attributes_that_may_reach_any_code_are_refused(tmp_path, value, shown):
    message = refusal(archive(dictionary(w=tensor(), x=value))(tmp_path))
    assert f"the code of {shown}" in message


def test_nested_classes_and_bound_methods_are_named_and_open(tmp_path):
    method = getattr_of(NESTED_CLASS + b")\x81", text("forward"))
    with open_checkpoint(archive(dictionary(w=tensor(), x=method))(tmp_path)) as opened:
        assert opened.foreign == ("mynet.Outer", "mynet.Outer.Inner", "mynet.Outer.Inner.forward")


def test_a_dangerous_name_is_reported_if_the_pickle_is_damaged_after_it(tmp_path):
    message = refusal(archive(name("os.system") + b")R" + b"0" * 9)(tmp_path))
    assert "the code of os.system" in message


def test_a_file_is_refused_if_another_pickle_of_it_is_an_attack(tmp_path):
    attack = pickle.dumps(payload(tmp_path, "os.mkdir"), 2)
    head = b"".join(pickle.dumps(part, 2) for part in PREAMBLE[:2])
    message = refusal(file(head + pickle.dumps(Net, 2) + attack + pickle.dumps([], 2))(tmp_path))
    assert "the code of posix.mkdir (and 1 more)" in message


@pytest.mark.parametrize("file_name", ['a".pt', "a\\.pt", "a\n.pt", "\u202e.pt", "\u3164.pt"])
def test_a_file_name_cannot_break_out_of_the_line_that_loads_it(file_name):
    _, load, _ = conversion_lines(Path(file_name))
    assert load == "model = torch.jit.load(path)"
