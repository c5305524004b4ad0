from . import groups as groups
from . import weight_layouts as weight_layouts
