"""Where a host is, as far as that decides what may travel to it in the clear.

Invariant: pure; a host is taken for this machine only where that is certain without asking anybody.
"""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, for certain."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
