"""Names of code that runs programs or code, or uses files or the network, as attacks name it."""

from __future__ import annotations

NAMES = {
    "Python": """
        os.system os.popen os.execv os.execve os.spawnl os.posix_spawn os.fork os.kill
        os.remove os.unlink os.rename os.rmdir os.mkdir os.makedirs os.chmod os.putenv
        os.open os.write os.listdir os.startfile os.path.exists posix.system posix.execv
        posix.open nt.system nt.startfile posixpath.exists ntpath.exists subprocess.Popen
        subprocess.run subprocess.call subprocess.check_output subprocess.getoutput
        _posixsubprocess.fork_exec popen2.popen2 commands.getoutput commands.getstatusoutput
        pty.spawn sys.exit sys.setprofile sys.settrace sys.modules sys.path.append
        builtins.eval builtins.exec builtins.compile builtins.__import__ builtins.open
        builtins.getattr builtins.setattr builtins.delattr builtins.globals builtins.locals
        builtins.vars builtins.breakpoint builtins.input builtins.exit builtins.quit
        builtins.help __builtin__.eval __builtin__.execfile __builtin__.file
        __builtin__.apply __builtin__.reload __builtin__.getattr __builtin__.__import__
        importlib.import_module importlib.__import__ importlib.reload
        importlib._bootstrap._load importlib.machinery.SourceFileLoader
        importlib.util.spec_from_file_location imp.load_source imp.load_dynamic
        imp.find_module pkgutil.resolve_name pkgutil.get_data zipimport.zipimporter
        runpy.run_path runpy.run_module runpy._run_code _frozen_importlib._gcd_import
        _frozen_importlib_external.SourceFileLoader _imp.create_dynamic
        code.InteractiveInterpreter.runcode code.interact codeop.compile_command bdb.Bdb.run
        pdb.run pdb.Pdb profile.run cProfile.run cProfile.runctx profile.Profile.runctx
        trace.Trace.run timeit.timeit timeit.Timer timeit.main doctest.debug_script
        doctest.testfile pydoc.pipepager pydoc.locate pydoc.safeimport pydoc.writedoc
        pickle.loads pickle.load _pickle.loads _pickle.Unpickler cPickle.loads marshal.loads
        marshal.load shelve.open dbm.open copyreg.add_extension copyreg.pickle ctypes.CDLL
        ctypes.cdll.LoadLibrary ctypes.pythonapi.PyRun_SimpleString ctypes.util.find_library
        _ctypes.dlopen _ctypes.call_function socket.socket socket.create_connection
        _socket.socket ssl.wrap_socket urllib.request.urlopen urllib.request.urlretrieve
        urllib2.urlopen http.client.HTTPConnection httplib.HTTPSConnection ftplib.FTP
        smtplib.SMTP telnetlib.Telnet poplib.POP3 imaplib.IMAP4 nntplib.NNTP
        xmlrpc.client.ServerProxy xmlrpclib.ServerProxy socketserver.TCPServer
        SocketServer.TCPServer wsgiref.simple_server.make_server asyncore.dispatcher
        smtpd.SMTPServer webbrowser.open
        asyncio.create_subprocess_shell asyncio.run
        asyncio.unix_events._UnixSubprocessTransport multiprocessing.Process
        multiprocessing.util.spawnv_passfds concurrent.futures.ProcessPoolExecutor
        threading.Thread _thread.start_new_thread signal.signal atexit.register
        weakref.finalize sched.scheduler faulthandler._sigsegv faulthandler.enable
        resource.setrlimit gc.get_objects inspect.getsource shutil.rmtree shutil.copyfile
        shutil.move shutil.unpack_archive tempfile.NamedTemporaryFile tempfile.mkdtemp
        io.open io.FileIO _io.FileIO _io.open _io.open_code codecs.open tokenize.open
        fileinput.input linecache.getline glob.glob pathlib.Path.write_text
        pathlib.Path.unlink pathlib.Path.read_text pathlib._local.Path.write_text
        pathlib.PosixPath.unlink gzip.open bz2.open lzma.open zipfile.ZipFile tarfile.open
        mmap.mmap sqlite3.connect logging.FileHandler logging.config.dictConfig
        logging.config.fileConfig logging.config.listen logging.handlers.SocketHandler
        configparser.ConfigParser.read netrc.netrc filecmp.cmp wave.open aifc.open
        plistlib.load xml.dom.minidom.parse xml.etree.ElementTree.parse xml.sax.parse
        mailbox.mbox mailcap.findmatch argparse.FileType compileall.compile_dir
        py_compile.compile zipapp.create_archive modulefinder.ModuleFinder cgitb.enable
        syslog.syslog fcntl.fcntl platform.popen platform._syscmd_ver uuid._popen
        uuid._get_command_stdout _osx_support._read_output _osx_support._find_executable
        _aix_support._read_cmd_output _bootsubprocess.Popen _bootsubprocess.check_output
        _sitebuiltins.Quitter rlcompleter.Completer.attr_matches tkinter.Tcl tkinter.Tk
        turtle.Screen turtledemo.__main__.DemoWindow
        idlelib.pyshell.ModifiedInterpreter.runcode idlelib.run.Executive.runcode
        idlelib.calltip.get_entity idlelib.debugobj.ObjectTreeItem
        lib2to3.pgen2.grammar.Grammar.loads ensurepip._run_pip ensurepip.bootstrap
        venv.create distutils.file_util.write_file distutils.spawn.spawn unittest.main
        unittest.mock._importer _interpreters.exec curses.initscr
        readline.write_history_file types.FunctionType types.CodeType types.LambdaType
        types.MethodType builtins.code typing.get_type_hints typing.ForwardRef._evaluate
        dataclasses._create_fn dataclasses.make_dataclass operator.attrgetter
        operator.methodcaller _operator.attrgetter _operator.methodcaller operator.call
        builtins.map builtins.filter builtins.object.__reduce_ex__ logging.os.system
        logging.sys.modules argparse._os.execv argparse._os.remove argparse._sys.exit
        collections._sys.modules collections.abc.sys random._os.execv uuid.os.popen
        enum.sys.exit enum.bltns.eval pathlib.os.system datetime.sys.exit fractions.sys.exit
        typing.sys.exit collections.__init__.__globals__ functools.partial.__call__
    """,
    "numpy": """
        numpy.os.remove numpy.load numpy.save numpy.savez numpy.fromfile
        numpy.ndarray.tofile numpy.memmap numpy.genfromtxt numpy.loadtxt numpy.fromregex
        numpy.lib.npyio.load numpy.lib.format.open_memmap numpy.lib._npyio_impl.load
        numpy.DataSource numpy.lib._datasource.open numpy.ctypeslib.load_library
        numpy.testing._private.utils.runstring numpy.testing._private.utils.measure
        numpy.f2py.crackfortran.myeval numpy.f2py.crackfortran._eval_length
        numpy.f2py.compile numpy.distutils.exec_command.exec_command
        numpy.core.multiarray.fromfile numpy._core.multiarray.fromfile
    """,
    "torch": """
        torch.os.system torch.sys.exit torch.nn.modules.module.os.remove
        torch.nn.Module.__init__.__globals__ torch._utils._rebuild_tensor.__globals__
        torch.load torch.save torch.hub.load torch.hub.load_state_dict_from_url
        torch.hub.download_url_to_file torch.serialization.load torch.jit.load
        torch.jit.script torch.jit.unsupported_tensor_ops.execWrapper torch.from_file
        torch.Tensor.from_file torch.UntypedStorage.from_file
        torch.storage.UntypedStorage.from_file torch.FloatStorage.from_file
        torch.storage._load_from_bytes torch.storage.UntypedStorage._new_shared_filename_cpu
        torch._utils._import_dotted_name torch.utils.cpp_extension.load
        torch.utils.cpp_extension.load_inline torch.utils._config_module.load_config
        torch.utils._config_module.ConfigModule.load_config torch.utils.collect_env.run
        torch.utils.bottleneck.__main__.run_cprofile torch.utils.model_zoo.load_url
        torch.utils.data.datapipes.utils.decoder.basichandlers
        torch.utils.tensorboard.SummaryWriter torch.utils.file_baton.FileBaton
        torch._inductor.codecache.compile_file
        torch._inductor.compile_worker.subproc_pool.SubprocPool
        torch._dynamo.guards.GuardBuilder.get torch._dynamo.optimize
        torch._C._jit_pass_inline torch._C.PyTorchFileReader torch._C.PyTorchFileWriter
        torch._C._import_ir_module_from_package torch._C._distributed_c10d.TCPStore
        torch.distributed.TCPStore torch.distributed.rpc.rpc_sync
        torch.distributed.init_process_group torch.multiprocessing.spawn
        torch.package.PackageImporter torch.package.package_importer.PackageImporter
        torch.ops.load_library torch._ops.ops.load_library torch.classes.load_library
        torch.fx.experimental.symbolic_shapes.ShapeEnv.evaluate_guards_expression
        torch.fx.graph_module._exec_with_source torch.fx.graph_module._forward_from_src
        torch.fx._lazy_graph_module._LazyGraphModule torch.onnx.export torch.export.load
        torch.compile torch.profiler.profile torch.profiler._utils.traverse_dfs
        torch.autograd.profiler.load_nvprof torch.cuda.memory._dump_snapshot
        torch.nn.utils.convert_parameters.os.remove
        torch._weights_only_unpickler.Unpickler
        torch.testing._internal.common_utils.os.remove
    """,
    "other packages": """
        pexpect.run sh.Command plumbum.local dill.loads dill._dill._load_type
        dill._dill._create_function cloudpickle.loads cloudpickle.cloudpickle._make_function
        cloudpickle.cloudpickle._builtin_type cloudpickle.cloudpickle.subimport joblib.load
        joblib.numpy_pickle.load jsonpickle.decode yaml.load yaml.unsafe_load yaml.full_load
        ruamel.yaml.load cffi.FFI requests.get requests.api.post urllib3.PoolManager
        httpx.get aiohttp.ClientSession aiohttp.client.ClientSession paramiko.SSHClient
        boto3.client websocket.create_connection websockets.connect pycurl.Curl
        setuptools.setup pip.main pip._internal.main pip._internal.cli.main.main pytest.main
        timm.utils.os.execv ultralytics.utils.checks.subprocess.run
        torchvision.datasets.utils.download_url torchvision.io.read_file torchaudio.load
        scipy.io.loadmat pandas.read_pickle pandas.eval pandas.io.pickle.read_pickle
        pandas.core.computation.eval.eval sympy.sympify sympy.parsing.sympy_parser.eval_expr
        sympy.core.sympify.sympify numexpr.evaluate PIL.Image.open PIL.ImageMath.eval
        PIL.ImageMath.unsafe_eval cv2.imread imageio.imread skimage.io.imread
        matplotlib.pyplot.savefig tensorflow.io.read_file tensorflow.saved_model.load
        keras.models.load_model keras.utils.get_file transformers.AutoModel.from_pretrained
        transformers.utils.hub.cached_file datasets.load_dataset
        huggingface_hub.hf_hub_download hydra.utils.instantiate hydra.utils.call
        hydra._internal.instantiate._instantiate2.instantiate hydra.utils.get_method
        omegaconf.OmegaConf.load ultralytics.utils.downloads.safe_download
        ultralytics.utils.checks.check_requirements ultralytics.utils.loss.os.remove
        mmengine.config.Config.fromfile mmengine.fileio.load mmcv.Config.fromfile
        detectron2.config.LazyConfig.load fastai.learner.load_learner
        lightning.pytorch.core.saving.load_from_checkpoint mlflow.pyfunc.load_model
        nltk.download Cython.inline Cython.Build.Inline.cython_inline IPython.start_ipython
        IPython.core.interactiveshell.InteractiveShell execnet.makegateway
        werkzeug.utils.import_string pydantic._internal._validators.import_string
        pydantic.v1.utils.import_string networkx.read_gpickle gensim.utils.unpickle
        statsmodels.iolib.smpickle.load_pickle sklearn.externals.joblib.load psutil.Popen
        git.Repo docker.from_env fabric.Connection invoke.run nox.run tox.cmdline
        gdown.download wget.download fsspec.open s3fs.S3FileSystem gcsfs.GCSFileSystem
        smart_open.open
    """,
}
DANGEROUS = {package: names.split() for package, names in NAMES.items()}
"""The names by package, as they are written in a pickle; the names of Python 2 are included."""
