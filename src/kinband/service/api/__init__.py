"""The service over HTTP: `/v1` for programs, probes and figures for those who run it.

`app` puts it together and describes it; `routes` are its handlers. `requests` is what comes,
strictly read, `kinband.service.schemas` what goes; `authentication` says who may do what and lets callers in,
`routing` leads from a request to its handler; `errors` answers problems, `metrics` is for Prometheus.
"""

from kinband.service.api.app import create_app
from kinband.service.api.authentication import Limits

__all__ = ["Limits", "create_app"]
