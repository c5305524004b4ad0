from .tabs import ViewTabs as ViewTabs
