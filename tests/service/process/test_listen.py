"""Listening sockets: ports chosen by the system, and errors that name the key to change."""

import pytest

from delayed_tracker.service.process.listen import AddressInUse, AddressUnusable, address_count, listen
from delayed_tracker.service.settings.address import Address


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_port_zero_comes_back_as_the_port_in_use(host: str):
    """The bound address is one that a client can connect to."""
    listener, bound = await listen("httpListenAddress", Address(host, 0))
    with listener:
        assert bound.host == host
        assert bound.port == listener.getsockname()[1] > 0


async def test_address_in_use_names_key_and_address():
    """A second listener is refused, with the key to change and the remedy."""
    listener, bound = await listen("httpListenAddress", Address("127.0.0.1", 0))
    with listener, pytest.raises(AddressInUse) as caught:
        await listen("grpcListenAddress", bound)
    assert f"grpcListenAddress={bound}: the address is in use" in caught.value.message
    assert "0 takes any free one" in caught.value.message


async def test_released_address_can_be_bound_again():
    """A restart can bind the address that the earlier process has released."""
    listener, bound = await listen("httpListenAddress", Address("127.0.0.1", 0))
    listener.close()
    again, _ = await listen("httpListenAddress", bound)
    again.close()


async def test_address_of_another_machine_is_unusable():
    """An address reserved for documentation belongs to no interface of this machine."""
    with pytest.raises(AddressUnusable, match=r"httpListenAddress=192\.0\.2\.1:0"):
        await listen("httpListenAddress", Address("192.0.2.1", 0))


async def test_unknown_host_is_unusable():
    """The error names a host name that does not resolve."""
    with pytest.raises(AddressUnusable, match=r"no-such-host\.invalid"):
        await listen("grpcListenAddress", Address("no-such-host.invalid", 1))


async def test_addresses_of_a_host_are_counted():
    """An address counts as one, a name may stand for several, and an unknown name is an error with the key."""
    assert await address_count("grpcListenAddress", Address("127.0.0.1", 0)) == 1
    assert await address_count("grpcListenAddress", Address("localhost", 0)) >= 1
    with pytest.raises(AddressUnusable, match=r"grpcListenAddress=no\.such\.host\.invalid:0"):
        await address_count("grpcListenAddress", Address("no.such.host.invalid", 0))
