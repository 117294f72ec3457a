"""A node without one: names, what is kept secret, and what is said where ncclient is not installed."""

import sys

import pytest

from kinband.deploy import Access
from kinband.deploy.node import Node, address_of
from kinband.errors import BadInputError


@pytest.mark.parametrize("name", ["", "enb7:", "enb7:0", "enb7:65536", "enb7:many", "a b", "::1", "[::1", "a:1:2"])
def test_what_is_no_node_is_refused(name: str) -> None:
    with pytest.raises(BadInputError, match="a node is HOST:PORT, such as enb7:830"):
        address_of(name)


def test_a_password_is_in_no_text() -> None:
    word = "opensesame"
    assert word not in repr(Access(password=word))


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ncclient", None)
    with pytest.raises(BadInputError, match=r"ncclient is not installed: pip install 'kinband\[netconf\]'"):
        Node("enb7:830", Access())


def test_a_configuration_of_ssh_that_is_not_there_is_named() -> None:
    with pytest.raises(BadInputError, match="no-such-file cannot be read: check --ssh-config"):
        Node("enb7:830", Access(ssh_config="no-such-file"))
