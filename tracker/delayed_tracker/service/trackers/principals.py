"""Open trackers by the principal that opened each of them last, for quotas and for the audit log."""

from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.trackers.components import HostState
from delayed_tracker.service.trackers.host import TrackerHost

_COUNTED = frozenset({HostState.READY, HostState.UNLOADED})


class PrincipalTrackers:
    """Trackers of each principal. Those that nobody has opened since the service started belong to none."""

    def __init__(self) -> None:
        self._roles: dict[TrackerKey, str] = {}
        self._hosts: dict[str, dict[TrackerKey, TrackerHost]] = {}

    def pass_to(self, host: TrackerHost, role: str) -> str:
        """Note the role of the principal that has opened a tracker. Return the previous one; empty if unknown."""
        previous = self._leave(host.key)
        self._roles[host.key] = role
        self._hosts.setdefault(role, {})[host.key] = host
        return previous

    def forget(self, host: TrackerHost) -> None:
        """Note that a tracker is closed."""
        self._leave(host.key)

    def _leave(self, key: TrackerKey) -> str:
        role = self._roles.pop(key, "")
        if role:
            held = self._hosts[role]
            del held[key]
            if not held:
                del self._hosts[role]
        return role

    def open_count(self, role: str) -> int:
        """Return the number of open trackers of a principal. O(1)."""
        return len(self._hosts.get(role, ()))

    def holds(self, role: str, key: TrackerKey) -> bool:
        """Return True if a tracker is open and belongs to this principal."""
        return self._roles.get(key) == role

    def pending_count(self, role: str) -> int:
        """Return the indexes of a principal's trackers, leased ones included. O(trackers of the principal)."""
        return sum(host.tracked_count for host in self._hosts.get(role, {}).values() if host.state in _COUNTED)
