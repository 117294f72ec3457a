"""The real `kinband serve` in a process of its own, for tests."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kinband.service.client import KinbandClient

ENVIRONMENT = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}


@dataclass
class Served:
    """A service that runs.

    Attributes:
        process: Its process.
        url: Where it is.
        said: What it has printed so far.
    """

    process: "subprocess.Popen[str]"
    url: str
    said: list[str]

    def client(self, token: str = "") -> KinbandClient:
        return KinbandClient(self.url, token, timeout=30.0)

    def read_until(self, pattern: str) -> str:
        """Read what it prints until a line holds something, and return that."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line)
            if found := re.search(pattern, line):
                return found[1]
        raise AssertionError(f"{pattern} was not printed: {''.join(self.said)}")

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal; return the exit code and what was written to standard error."""
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors


@contextmanager
def served(*options: str) -> Iterator[Served]:
    """Run `kinband serve` with these options on a free port, from when it is ready."""
    command = [sys.executable, "-m", "kinband", "serve", "--port", "0", *options]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, bufsize=1
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"kinband is ready: (http://\S+?)/(?:\s|$)", line)
        if found is None:
            process.kill()
            raise AssertionError(f"{line}{process.communicate()[1]}")
        yield Served(process, found[1], [line])
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()
