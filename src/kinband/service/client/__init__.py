"""The client: a running service from Python, with httpx and nothing of the service itself.

`client` has a method for everything the service does, and tries again where that is safe; `records` is what comes
back.
"""

from kinband.service.client.client import KinbandClient, ServiceError
from kinband.service.client.records import (
    Alternative,
    Decision,
    Event,
    Expected,
    Explanation,
    Modes,
    Option,
    Outlook,
    Point,
    Rails,
    RailsChange,
    Refusal,
    RefusedByRails,
    Similarity,
    Station,
    Verdict,
)

__all__ = [
    "Alternative",
    "Decision",
    "Event",
    "Expected",
    "Explanation",
    "KinbandClient",
    "Modes",
    "Option",
    "Outlook",
    "Point",
    "Rails",
    "RailsChange",
    "Refusal",
    "RefusedByRails",
    "ServiceError",
    "Similarity",
    "Station",
    "Verdict",
]
