"""The service over HTTP: `/v1` for programs, probes and figures for those who run it.

`app` puts it together and describes it; `routes` are its handlers. `requests` is what comes,
`kinband.service.schemas` what goes; `gate` says who may do what, lets callers in and reads strictly; `errors` answers
problems, `metrics` is for Prometheus.
"""

from kinband.service.api.app import create_app
from kinband.service.api.gate import Limits

__all__ = ["Limits", "create_app"]
