from .keys import RandomKeys as RandomKeys
from .keys import Ranking as Ranking
from .keys import ScoreKeys as ScoreKeys
from .radix_select import Cut as Cut
from .radix_select import count_below as count_below
from .radix_select import work as work
from .row_column_scores import balanced as balanced
from .scores import standard_deviation as standard_deviation
