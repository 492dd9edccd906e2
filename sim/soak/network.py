"""The network of a virtual loop: servers, connections and machines that lose their power, all in memory.

Invariant: bytes of one direction arrive in the order in which they were written, unless the wire that they go over decides otherwise; what
an unplugged machine says nobody hears, and its peers see their connections reset. No file descriptor and no time of the wall is in it.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol

#: On which machine a task runs: its connections go down with it. Set where a life begins; tasks inherit it.
MACHINE: ContextVar[str] = ContextVar("soak machine", default="")


class Wire(Protocol):
    """What may happen to bytes on their way to or from a server."""

    def carry(self, data: bytes, *, down: bool, connection: Connection) -> None:
        """Bytes were written; `down`: by the server. They arrive by `connection.deliver`, whenever and however often that is called."""


class _Endpoint:
    """Where a socket would be: enough of one for libraries that tune it or look whether it has gone."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.ended = False  # the peer has gone

    family, type, proto = 2, 1, 6

    def getsockname(self) -> tuple[str, int]:
        return ("127.0.0.1", self._port)

    def getpeername(self) -> tuple[str, int]:
        return ("127.0.0.1", self._port)

    def setsockopt(self, *_: Any) -> None:
        return

    def fileno(self) -> int:
        """A library that looks before it uses a connection again takes none for one that has something to read: its end."""
        return -1 if self.ended else _silent()


_SILENT: list[int] = []


def _silent() -> int:
    """A descriptor on which nothing ever comes: to a library that looks, the peer is still there."""
    if not _SILENT:
        _SILENT.extend(os.pipe())
    return _SILENT[0]


class Pipe(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, network: Network, connection: Connection, protocol: Any, *, server: bool, port: int) -> None:
        self._endpoint = _Endpoint(port)
        super().__init__({"socket": self._endpoint, "peername": ("127.0.0.1", port), "sockname": ("127.0.0.1", port)})
        self._network, self._connection, self._protocol, self._server = network, connection, protocol, server
        self._came: deque[bytes | None] = deque()  # None: the other side has ended
        self._paused = self._closing = self._gone = False
        self._flushing = False
        self.deaf = False  # on a machine without power

    # what protocols call

    def write(self, data: Any) -> None:
        if self._closing or self.deaf or not data:
            return
        self._connection.carry(bytes(data), down=self._server)

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not self._closing and not self.deaf:
            self._connection.end(down=self._server)

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            if not self.deaf:
                self._connection.end(down=self._server)
            self._network.loop.call_soon(self._lost, None)

    def abort(self) -> None:
        self._closing = True
        if not self.deaf:
            self._connection.reset(down=self._server)
        self._network.loop.call_soon(self._lost, None)

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self._flush_soon()

    def is_reading(self) -> bool:
        return not self._paused

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is buffered: memory takes what is written."""

    def get_write_buffer_size(self) -> int:
        return 0

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol

    def get_protocol(self) -> Any:
        return self._protocol

    # what the connection calls

    def arrives(self, data: bytes | None) -> None:
        """Bytes, or the end of them."""
        if not self.deaf and not self._gone:
            self._endpoint.ended |= data is None
            self._came.append(data)
            self._flush_soon()

    def _flush_soon(self) -> None:
        if self._came and not self._flushing:
            self._flushing = True
            self._network.loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        while self._came and not self._paused and not self._gone:
            data = self._came.popleft()
            if data is not None:
                self._protocol.data_received(data)
            elif not self._protocol.eof_received():
                self.close()

    def broken(self) -> None:
        """The connection is gone under this end."""
        self._closing = self._endpoint.ended = True
        self._came.clear()
        self._network.loop.call_soon(self._lost, ConnectionResetError("the connection was reset"))

    def _lost(self, error: Exception | None) -> None:
        if not self._gone:
            self._gone = True
            self._connection.over()
            self._protocol.connection_lost(error)


class Connection:
    """A client's and a server's pipe, and the wire between them, if it is a special one."""

    def __init__(self, network: Network, machine: str, wire: Wire | None) -> None:
        self._network, self.machine, self._wire = network, machine, wire
        self.client: Pipe
        self.server: Pipe
        self.state: dict[str, Any] = {}  # what a wire remembers of it

    def carry(self, data: bytes, *, down: bool) -> None:
        if self._wire is None:
            self.deliver(data, down=down)
        else:
            self._wire.carry(data, down=down, connection=self)

    def deliver(self, data: bytes, *, down: bool) -> None:
        """To the other end."""
        (self.client if down else self.server).arrives(data)

    def end(self, *, down: bool) -> None:
        if not self.state.get("half open"):
            (self.client if down else self.server).arrives(None)

    def reset(self, *, down: bool) -> None:
        if not self.state.get("half open"):
            (self.client if down else self.server).broken()

    def over(self) -> None:
        self._network.connections.discard(self)

    def cut(self) -> None:
        """Both ends see it break."""
        self.client.broken()
        self.server.broken()

    def unplug(self) -> None:
        """The client's machine has lost its power: it hears and says nothing more, and its server sees a reset."""
        self.client.deaf = True
        self.server.broken()


class MemoryServer(asyncio.AbstractServer):
    """Listens until it is closed."""

    def __init__(self, network: Network, factory: Callable[[], Any], port: int) -> None:
        self._network, self.factory, self.port = network, factory, port
        self.sockets = (_Endpoint(port),)

    def close(self) -> None:
        self._network.listeners.pop(self.port, None)

    async def wait_closed(self) -> None:
        """At once: who has connected is not the listener's business."""

    def is_serving(self) -> bool:
        return self.port in self._network.listeners

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._network.loop

    async def start_serving(self) -> None:
        """It does."""

    async def serve_forever(self) -> None:
        raise NotImplementedError


class Network:
    """All of it. `wires` are by port."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.listeners: dict[int, MemoryServer] = {}
        self.wires: dict[int, Wire] = {}
        self.connections: set[Connection] = set()
        self._ports = itertools.count(20_001)
        self._dark: set[str] = set()

    def listen(self, factory: Callable[[], Any], port: int) -> MemoryServer:
        port = port or next(self._ports)
        if port in self.listeners:
            raise OSError(98, f"port {port} is in use")
        server = self.listeners[port] = MemoryServer(self, factory, port)
        return server

    def connect(self, factory: Callable[[], Any], port: int) -> tuple[Pipe, Any]:
        server, machine = self.listeners.get(port), MACHINE.get()
        if server is None or machine in self._dark:
            raise ConnectionRefusedError(111, f"nobody listens on port {port}")
        connection = Connection(self, machine, self.wires.get(port))
        ours, theirs = factory(), server.factory()
        connection.client = Pipe(self, connection, ours, server=False, port=port)
        connection.server = Pipe(self, connection, theirs, server=True, port=next(self._ports))
        self.connections.add(connection)
        theirs.connection_made(connection.server)
        ours.connection_made(connection.client)
        return connection.client, ours

    def unplug(self, machine: str) -> None:
        """Pull the plug of a machine: it stays dark for ever."""
        self._dark.add(machine)
        for connection in [c for c in self.connections if c.machine == machine]:
            connection.unplug()
