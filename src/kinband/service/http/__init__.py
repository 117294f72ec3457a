"""The service over HTTP: `/v1` for programs, probes and figures for those who run it.

`app` puts it together; `routes` are what it answers, `bodies` and `answers` what comes and goes, `shapes` turns records
into answers; `routing` says who may do what, lets callers in and reads strictly; `errors` answers problems; `probes`
and `metrics` are for those who run it.
"""

from kinband.service.http.app import create_app
from kinband.service.http.routing import Limits

__all__ = ["Limits", "create_app"]
