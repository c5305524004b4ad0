from .amount import _compute_nparams_toprune as _compute_nparams_toprune
from .amount import _validate_pruning_amount as _validate_pruning_amount
from .amount import _validate_pruning_amount_init as _validate_pruning_amount_init
from .modules.channel_methods import LnStructured as LnStructured
from .modules.channel_methods import RandomStructured as RandomStructured
from .modules.channel_methods import _validate_pruning_dim as _validate_pruning_dim
from .modules.channel_methods import (
    _validate_structured_pruning as _validate_structured_pruning,
)
from .modules.element_methods import CustomFromMask as CustomFromMask
from .modules.element_methods import Identity as Identity
from .modules.element_methods import L1Unstructured as L1Unstructured
from .modules.element_methods import RandomUnstructured as RandomUnstructured
from .modules.functional import custom_from_mask as custom_from_mask
from .modules.functional import global_unstructured as global_unstructured
from .modules.functional import identity as identity
from .modules.functional import is_pruned as is_pruned
from .modules.functional import l1_unstructured as l1_unstructured
from .modules.functional import ln_structured as ln_structured
from .modules.functional import random_structured as random_structured
from .modules.functional import random_unstructured as random_unstructured
from .modules.functional import remove as remove
from .modules.pruning_method import BasePruningMethod as BasePruningMethod
from .modules.pruning_method import PruningContainer as PruningContainer
from .norms.unit_norms import _compute_norm as _compute_norm
