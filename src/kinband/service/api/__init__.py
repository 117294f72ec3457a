"""The service over HTTP: `/v1` for programs, probes and figures for those who run it.

`app` puts it together; `decisions`, `stations` and `looking` are its routes: a handler reads the request, calls one
method of `Operations` and shows what comes back. `requests` is what comes, `kinband.service.schemas` what goes; `gate`
says who may do what, lets callers in and reads strictly; `errors` answers problems, `metrics` is for Prometheus.
"""

from kinband.service.api.app import create_app
from kinband.service.api.gate import Limits

__all__ = ["Limits", "create_app"]
