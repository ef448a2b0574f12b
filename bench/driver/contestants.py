"""All servers that a contest can have."""

from . import lua_peers, peers

PEERS = peers.PEERS | lua_peers.PEERS
