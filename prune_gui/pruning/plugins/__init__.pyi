from .loading import load_file as load_file
from .loading import load_installed as load_installed
from .loading import load_methods as load_methods
from .loading import use_installed as use_installed
