from .base import Checkpoint as Checkpoint
from .digest import fingerprint as fingerprint
from .entries import Entry as Entry
from .opening import open_checkpoint as open_checkpoint
from .tensor_info import TensorInfo as TensorInfo
from .tree import ModuleNode as ModuleNode
from .tree import module_tree as module_tree
from .writing import write_checkpoint as write_checkpoint
