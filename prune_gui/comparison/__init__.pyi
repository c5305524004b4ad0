from . import mask_overlap as mask_overlap
from . import state_losses as state_losses
