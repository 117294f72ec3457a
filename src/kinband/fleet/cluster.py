"""Joining a Ray cluster: one that runs, or one started on this machine; and a clear sentence when there is none.

Ray waits for minutes for a cluster that is not there and may end the process in the end. So its address is tried first:
the port by a plain connection, then the cluster by a process of its own that can be given up. Ray starts quietly: no
dashboard, no usage statistics, nothing printed.
"""

import importlib
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from kinband.errors import BadInputError
from kinband.fleet.errors import FleetError

_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
_STORE = 512 * 2**20  # bytes for results in flight, where we start the cluster; Ray would take a third of the memory
_TRY = """
import logging, sys, ray
ray.init(address=sys.argv[1], logging_level=logging.CRITICAL, log_to_driver=False)
ray.shutdown()
"""


def ray_module() -> Any:
    """Return the package `ray`, or say how to get it."""
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise FleetError(
            "Ray is not installed: pip install 'kinband[ray]', or run the fleet in this process"
        ) from error


def join(address: str | None, *, processors: int, timeout: float = 15.0) -> Callable[[], None]:
    """Connect this process to a cluster and return what disconnects it again.

    A process that is connected already stays where it is, and stays connected.

    Args:
        address: "auto" for the cluster that this machine belongs to, "host:port" for a named one, None to start
            one here.
        processors: How many processors a cluster started here has.
        timeout: How many seconds to wait for an answer.
    """
    ray = ray_module()
    if ray.is_initialized():
        return _stay
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
    if address is None:
        own = {"num_cpus": processors, "include_dashboard": False, "object_store_memory": _STORE}
        _init(ray, "local", **own, **quiet)
    else:
        reach(address, timeout=timeout)
        _init(ray, address, **quiet)
    return _leave


def reach(address: str, *, timeout: float) -> None:
    """Return if a cluster answers at the address, or say within seconds that none does.

    Example:
        >>> reach("ray://head:10001", timeout=2.0)
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: address must be 'auto' or 'host:port', got 'ray://head:10001': ...
    """
    if address != "auto":
        host, port = _split(address)
        try:
            socket.create_connection((host, port), timeout=min(timeout, 5.0)).close()
        except OSError as error:
            raise _unreachable(address, str(error)) from error
    ray_module()  # says how to install it, and makes the attempt below quiet
    command = [sys.executable, "-W", "ignore", "-c", _TRY, address]
    try:
        tried = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)  # noqa: S603
    except subprocess.TimeoutExpired as error:
        raise _unreachable(address, f"no answer within {timeout:g} s") from error
    if tried.returncode:
        lines = [line for line in tried.stderr.splitlines() if line.strip()]
        raise _unreachable(address, lines[-1] if lines else f"exit code {tried.returncode}")


def _init(ray: Any, address: str, **options: Any) -> None:
    try:
        ray.init(address=address, **options)
    except (OSError, RuntimeError, ValueError) as error:
        raise _unreachable(address, str(error).splitlines()[0]) from error


def _split(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not host or "/" in address or not port.isdecimal() or not 0 < int(port) < 65536:
        raise BadInputError(
            f"address must be 'auto' or 'host:port', got {address!r}: run this on a machine of the cluster"
        )
    return host.strip("[]"), int(port)


def _unreachable(address: str, why: str) -> FleetError:
    return FleetError(
        f"no Ray cluster answers at {address} ({why}): start one with `ray start --head`, join it from this machine "
        "with `ray start --address=host:port`, or run the fleet in this process"
    )


def _stay() -> None:
    """Leave the cluster to whoever joined it."""


def _leave() -> None:
    ray_module().shutdown()
