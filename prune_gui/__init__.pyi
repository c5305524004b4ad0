from prune_gui.recipe.recipe import Step as Step

from .checkpoint.base import Checkpoint as Checkpoint
from .checkpoint.opening import open_checkpoint as open_checkpoint
from .checkpoint.tensor_info import TensorInfo as TensorInfo
from .errors import PruneGuiError as PruneGuiError
from .evaluation.calibration.recording import Recording as Recording
from .evaluation.calibration.recording import record as record
from .evaluation.calibration.sequential_refit import refit as refit
from .evaluation.evaluator import Evaluator as Evaluator
from .evaluation.scan import scan as scan
from .evaluation.search import search as search
from .pruning.plugins.loading import load_methods as load_methods
from .recipe.exporting import export as export
from .recipe.recipe import Recipe as Recipe
from .recipe.resolution import Resolution as Resolution
from .recipe.resolution import resolve as resolve
