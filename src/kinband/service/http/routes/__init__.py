"""The routes of the service, one file for each thing that people and programs do.

A handler reads the request, calls one method of `Operations` and shapes the answer.
"""

from fastapi import APIRouter

from kinband.service.http.routes import decisions, exports, looks, outcomes, people, rails, stations

ROUTERS: tuple[APIRouter, ...] = (
    decisions.routes,
    outcomes.routes,
    people.routes,
    stations.routes,
    rails.routes,
    looks.routes,
    exports.routes,
)
"""Everything under /v1."""
