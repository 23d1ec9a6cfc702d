"""Listening sockets, and the errors for addresses that cannot be used."""

import asyncio
import errno
import socket

from delayed_tracker.core.values.errors import DelayedTrackerError
from delayed_tracker.service.settings.address import Address


class AddressInUse(DelayedTrackerError):
    """Another process listens on the address. Stop it, or configure another address."""

    reason = "ADDRESS_IN_USE"

    def __init__(self, key: str, address: Address) -> None:
        super().__init__(
            f"{key}={address}: the address is in use; stop the process that listens there, or set {key} to another port"
            " (0 takes any free one)",
            metadata={"key": key, "address": str(address)},
        )


class AddressUnusable(DelayedTrackerError):
    """The address is not one this machine can listen on."""

    reason = "ADDRESS_UNUSABLE"

    def __init__(self, key: str, address: Address, why: str) -> None:
        super().__init__(
            f"{key}={address}: {why}; set {key} to an address of this machine that this user may listen on",
            metadata={"key": key, "address": str(address)},
        )


async def listen(key: str, address: Address) -> tuple[socket.socket, Address]:
    """Open a listening socket. Returns it with its address, in which port 0 is replaced by the port that the system
    chose.

    Raises:
        AddressInUse: another process listens there.
        AddressUnusable: the host is unknown or not of this machine, or the port needs more rights.
    """
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        family, _, _, _, target = found[0]
        listener = socket.create_server(target[:2], family=family)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise AddressInUse(key, address) from error
        raise AddressUnusable(key, address, error.strerror or str(error)) from error
    return listener, Address(address.host, listener.getsockname()[1])


async def address_count(key: str, address: Address) -> int:
    """Return the number of addresses that a host stands for; 1, unless it is a name.

    Raises:
        AddressUnusable: the host is unknown.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise AddressUnusable(key, address, error.strerror or str(error)) from error
    return len({target for *_, target in found})
