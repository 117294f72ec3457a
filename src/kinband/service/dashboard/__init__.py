"""The dashboard: pages for a browser, made on the server, with charts of our own and nothing from elsewhere.

A page is a file: what it shows, its routes, and what its forms do. `routes` puts them together and has the doors;
`desk` is what pages work with, `frame` what is around them, errors and messages included, `visitors` tells who looks.
`rows` and `text` say what several pages show, `charts` draws it as SVG. Pages work without script, which adds live
updates, readings under the pointer and the choice of theme.
"""

from kinband.service.dashboard.frame import SECURITY_HEADERS, error_page
from kinband.service.dashboard.routes import dashboard_router

__all__ = ["SECURITY_HEADERS", "dashboard_router", "error_page"]
