from . import mask_overlap as mask_overlap
from . import summary as summary
