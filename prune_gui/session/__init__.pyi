from .history import History as History
from .history import Moment as Moment
from .log import start_log as start_log
from .resolver import Resolver as Resolver
from .session import Session as Session
from .settings import Settings as Settings
