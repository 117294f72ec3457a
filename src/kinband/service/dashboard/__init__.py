"""The dashboard: pages for a browser, made on the server, with charts of our own and nothing from elsewhere.

`routes` has the pages and `actions` the forms, `railing` both for the guard rails; `views` works out what a page shows,
`charts` draws it as SVG, `words` says it; `frame` is what all pages share, `desk` what routes work with, `errors` what
went wrong, `visitors` tells who looks. Pages work without script, which adds live updates, readings under the pointer
and the choice of theme.
"""

from kinband.service.dashboard.errors import error_page
from kinband.service.dashboard.frame import SECURITY_HEADERS
from kinband.service.dashboard.routes import dashboard_router

__all__ = ["SECURITY_HEADERS", "dashboard_router", "error_page"]
