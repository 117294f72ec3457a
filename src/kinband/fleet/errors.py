"""What can go wrong with a fleet beyond what can go wrong with a controller."""

from kinband.errors import KinbandError


class FleetError(KinbandError, RuntimeError):
    """The machinery under a fleet failed (workers, cluster, disk); what is on record is as it was before the call.

    Example:
        >>> from kinband.fleet.cluster import reach
        >>> reach("127.0.0.1:1", timeout=2.0)
        Traceback (most recent call last):
            ...
        kinband.fleet.errors.FleetError: no Ray cluster answers at 127.0.0.1:1 (...): ...
    """
