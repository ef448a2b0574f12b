"""All servers that a contest can have."""

from . import lua_peers, other_peers, peers

PEERS = peers.PEERS | lua_peers.PEERS | other_peers.PEERS
ORIENTATION = frozenset(other_peers.PEERS)
"""Those that nobody who is about to choose a server for PHP asks about first."""
