"""A node to try `kinband apply` on: Debian's netconfd behind an sshd on loopback, with the cells of a simulated city.

It manages all cells of an inventory, with the thresholds that a log of changes ends with, as `kinband simulate --pm pm
--cm cm.csv --map map.yaml` writes both. What the mapping needs to find them, and how to come in, is printed. The node
runs until it is stopped, and forgets everything then.

Run it in a checkout: python -m tools.netconf_node inventory.csv cm.csv
"""

import signal
import sys
from contextlib import suppress
from pathlib import Path

from tests.support import netconf

SAID = """\
Add to the mapping:

netconf:
  namespaces: {{c: "{space}"}}
  paths:
    handover_threshold_dbm: "{cell}/a2ThresholdRsrp"

Then: kinband apply PLAN --map MAPPING --netconf {node} --ssh-config {ssh_config}
Stop the node with Ctrl-C.
"""


def main(inventory: Path, changes: Path) -> None:
    """Start the node, say where it is, and wait."""
    with netconf.network(1) as (server,):
        settings = netconf.settings_at_the_end(changes)
        (server.home / "startup.xml").write_text(netconf.node_of_all_sites(inventory, settings), encoding="utf-8")
        server.start(fresh=False)
        said = SAID.format(space=netconf.SPACE, cell=netconf.CELL, node=server.name, ssh_config=server.ssh_config)
        sys.stdout.write(said)
        sys.stdout.flush()
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    if netconf.MISSING:
        sys.exit(netconf.WHY)
    if len(sys.argv) != 3:
        sys.exit("give the inventory and the log of changes: python -m tools.netconf_node inventory.csv cm.csv")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
