"""Real NETCONF servers for tests: Debian's netconfd (yuma123), two of them, behind an sshd of their own on loopback.

Each server is a node with two cells. It starts in a tenth of a second, can be killed and started again, and forgets
what was committed and not confirmed, as a node does.
"""

import os
import pwd
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from kinband.deploy import Access
from kinband.deploy.node import Node

PROGRAMS = ("/usr/sbin/netconfd", "/usr/sbin/netconf-subsystem", "/usr/sbin/sshd")
MISSING = [program for program in PROGRAMS if not os.access(program, os.X_OK)]
WHY = f"{', '.join(MISSING)} not installed: apt-get install netconfd openssh-server"
MODULE = Path(__file__).with_name("kinband-cells.yang")
SPACE = "urn:kinband:cells"
USER = pwd.getpwuid(os.getuid()).pw_name
CELLS = {1: 40, 2: 45}
"""Number of a cell to its threshold as it is coded, on every node at its start."""
CELL = "/c:ManagedElement[id={ManagedElement}]/ENBFunction[id={ENBFunction}]/EUtranCellFDD[id={id}]/attributes"
MAP = """\
station: {object: EUtranCellFDD, name: "{ManagedElement}-{EUtranCellFDD}"}
reward: Good / All
knobs:
  a2_threshold_dbm: {attribute: a2ThresholdRsrp, unit: lte-rsrp}
  hysteresis_db: {attribute: hysteresisEutraA2, unit: half-db}
inventory: inventory.csv
netconf:
  namespaces: {c: "urn:kinband:cells"}
  paths:
    a2_threshold_dbm: "CELL/a2ThresholdRsrp"
    hysteresis_db: "CELL/hysteresisEutraA2"
""".replace("CELL", CELL)
"""The mapping of the cells; stations are called 7-1, 7-2, 8-1 and 8-2."""
_PATIENCE = 20.0  # seconds for a server to start; there are few cores

_CELL = (
    "<EUtranCellFDD><id>{}</id><attributes><a2ThresholdRsrp>{}</a2ThresholdRsrp>"
    "<hysteresisEutraA2>2</hysteresisEutraA2></attributes></EUtranCellFDD>"
)


class Server:
    """One node.

    Args:
        folder: Where its files are.
        number: Its number, which is the id of its managed element.
        port: Of the sshd in front of it.
    """

    def __init__(self, folder: Path, number: int, port: int) -> None:
        self.folder, self.number, self.port = folder, number, port
        self.name = f"127.0.0.1:{port}"
        self.home = folder / str(number)  # its own: what it goes back to is kept there, under a fixed name
        self.home.mkdir()
        self.socket = self.home / "socket"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *, fresh: bool = True, target: str = "candidate") -> None:
        """Start it, with the cells as they are at first or as they were saved."""
        self.stop()
        startup = self.home / "startup.xml"
        if fresh:
            cells = "".join(_CELL.format(*cell) for cell in CELLS.items())
            startup.write_text(
                '<?xml version="1.0"?><config xmlns="urn:ietf:params:xml:ns:netconf:base:1.0">'
                f'<ManagedElement xmlns="{SPACE}"><id>{self.number}</id><ENBFunction><id>1</id>{cells}'
                "</ENBFunction></ManagedElement></config>"
            )
        self.socket.unlink(missing_ok=True)
        log = self.home / "log"
        self.process = subprocess.Popen(
            [PROGRAMS[0], f"--module={MODULE}", f"--startup={startup}", f"--superuser={USER}", f"--target={target}",
             "--with-startup=true", f"--port={self.port}", f"--ncxserver-sockname={self.socket}", f"--log={log}",
             f"--home={self.home}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT, cwd=self.home,
        )  # fmt: skip
        _wait(lambda: _takes(self.socket), f"netconfd, see {log}")

    def stop(self) -> None:
        """Kill it, as a power cut does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def session(self) -> "closing[Node]":
        """A session, as another client has it."""
        return closing(Node(self.name, Access(ssh_config=str(self.ssh_config))))

    @property
    def ssh_config(self) -> Path:
        """The configuration that knows user, key and host keys."""
        return self.folder / "ssh_config"

    def cells(self, source: str = "running") -> dict[int, int]:
        """What the thresholds are, from the text of all that the server has."""
        with self.session() as node:
            text = node._session.get_config(source).data_xml
        found = re.findall(r"<id>(\d+)</id>\s*<attributes>\s*<a2ThresholdRsrp>(\d+)<", text)
        return {int(cell): int(value) for cell, value in found}


def write_inventory(servers: "list[Server]") -> None:
    """Write which cells there are and where, into this folder."""
    rows = [
        f'"DC=a.com,ManagedElement={server.number},ENBFunction=1,EUtranCellFDD={cell}",{server.name}'
        for server in servers
        for cell in CELLS
    ]
    Path("inventory.csv").write_text("\n".join(["dn,node", *rows]))


def settings_at_the_end(changes: Path) -> dict[int, int]:
    """Cell to its threshold as it is coded."""
    rows = re.findall(r'EUtranCellFDD=(\d+)",[^,]+,(\d+)$', changes.read_text(encoding="utf-8"), re.M)
    return {int(cell): int(value) for cell, value in rows}


def node_of_all_sites(inventory: Path, cells: dict[int, int]) -> str:
    """The configuration of one node that manages all sites."""
    found = re.findall(r"ManagedElement=(\d+),.*EUtranCellFDD=(\d+)", inventory.read_text(encoding="utf-8"))
    sites: dict[str, list[str]] = {}
    for site, cell in found:
        sites.setdefault(site, []).append(
            f"<EUtranCellFDD><id>{cell}</id><attributes><a2ThresholdRsrp>{cells[int(cell)]}</a2ThresholdRsrp>"
            "</attributes></EUtranCellFDD>"
        )
    elements = "".join(
        f'<ManagedElement xmlns="{SPACE}"><id>{site}</id><ENBFunction><id>1</id>{"".join(own)}'
        "</ENBFunction></ManagedElement>"
        for site, own in sites.items()
    )
    return f'<?xml version="1.0"?><config xmlns="urn:ietf:params:xml:ns:netconf:base:1.0">{elements}</config>'


@contextmanager
def network(count: int = 2) -> Iterator[list[Server]]:
    """Some nodes behind one sshd; all end with the block."""
    folder = Path(tempfile.mkdtemp(prefix="kb-netconf-"))
    servers = [Server(folder, 7 + number, port) for number, port in enumerate(_free_ports(count))]
    sshd = _sshd(folder, servers)
    try:
        for server in servers:
            server.start()
        yield servers
    finally:
        for server in servers:
            server.stop()
        sshd.terminate()
        sshd.wait()
        shutil.rmtree(folder)


def _sshd(folder: Path, servers: list[Server]) -> "subprocess.Popen[bytes]":
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    pairs = " ".join(f"--ncxserver-sockname={server.port}@{server.socket}" for server in servers)
    (folder / "sshd_config").write_text(
        "".join(f"Port {server.port}\n" for server in servers)
        + f"ListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\nStrictModes no\n"
        f'UsePAM no\nPasswordAuthentication no\nPidFile none\nSubsystem netconf "{PROGRAMS[1]} {pairs}"\n'
    )
    known = (folder / "host.pub").read_text()
    (folder / "known_hosts").write_text("".join(f"[127.0.0.1]:{server.port} {known}" for server in servers))
    (folder / "ssh_config").write_text(
        f"Host *\n  User {USER}\n  IdentityFile {folder}/user\n  UserKnownHostsFile {folder}/known_hosts\n"
    )
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # which sshd wants and nobody else makes without an init
    with (folder / "sshd.log").open("wb") as log:
        started = subprocess.Popen([PROGRAMS[2], "-D", "-e", "-f", folder / "sshd_config"], stderr=log)
    _wait(lambda: _takes(servers[-1].port), f"sshd: {(folder / 'sshd.log').read_text()}")
    return started


def _free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def _takes(place: Path | int) -> bool:
    """Whether somebody listens at a socket or a port."""
    family = socket.AF_UNIX if isinstance(place, Path) else socket.AF_INET
    with socket.socket(family) as probe:
        return probe.connect_ex(str(place) if isinstance(place, Path) else ("127.0.0.1", place)) == 0


def _wait(ready: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + _PATIENCE
    while not ready():
        if time.monotonic() > end:
            raise TimeoutError(f"no answer from {what}")
        time.sleep(0.02)
