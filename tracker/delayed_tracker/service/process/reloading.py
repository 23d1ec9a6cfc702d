"""Applies settings that are read again while the service runs (SIGHUP).

Keys declared ``reloadable`` take effect at once: all of them, or none if they do not fit together. Any other changed
key keeps its old value until the next start, and is logged.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from delayed_tracker.core.values.errors import DelayedTrackerError
from delayed_tracker.service.settings.settings import SETTING_KEYS, Settings

_log = structlog.stdlib.get_logger("delayed_tracker.service")


@dataclass(frozen=True, slots=True)
class Reload:
    """The outcome of reading the settings again."""

    settings: Settings
    """Settings in force from now on."""
    changed: tuple[str, ...]
    """Keys whose value has changed."""
    ignored: tuple[str, ...]
    """Keys that were changed and need a restart."""

    @classmethod
    def of(cls, current: Settings, wanted: Settings) -> "Reload":
        """Choose the values that take effect.

        Raises:
            InvalidInput: the new values do not fit together with those that stay.
        """
        before, after = current.by_key(), wanted.by_key()
        differing = [declared for key, declared in SETTING_KEYS.items() if before[key] != after[key]]
        changed = tuple(declared.key for declared in differing if declared.reloadable)
        return cls(
            current.with_values({key: after[key] for key in changed}),
            changed=changed,
            ignored=tuple(declared.key for declared in differing if not declared.reloadable),
        )


class Reloader:
    """Loop that reads the settings again for each request, one request after another, until it is cancelled.

    Args:
        read: reads the settings from their sources, in a thread; None if the sources cannot change.
        current: returns the settings in force.
        apply: puts new settings in force.
    """

    def __init__(
        self,
        read: Callable[[], Settings] | None,
        *,
        current: Callable[[], Settings],
        apply: Callable[[Settings], None],
    ) -> None:
        self._read = read
        self._current = current
        self._apply = apply
        self._asked = asyncio.Event()

    def ask(self) -> None:
        """Request a read of the settings. A request during a read causes one more read."""
        self._asked.set()

    async def run(self) -> None:
        """Serve requests until cancelled."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            await self._reload()

    async def _reload(self) -> None:
        if self._read is None:
            _log.info("SIGHUP ignored: the service has no settings source to read again")
            return
        try:
            reload = Reload.of(self._current(), await asyncio.to_thread(self._read))
        except DelayedTrackerError as error:
            _log.warning("settings not reloaded, the old ones stay", problem=error.message.replace("\n", "; "))
            return
        levels = [_level_of(settings) for settings in (self._current(), reload.settings)]
        if levels == sorted(levels):
            # The new level may hide the line.
            _tell(reload)
            self._apply(reload.settings)
        else:
            self._apply(reload.settings)
            _tell(reload)


def _level_of(settings: Settings) -> int:
    return logging.getLevelNamesMapping()[settings.telemetry.log_level.upper()]


def _tell(reload: Reload) -> None:
    level = logging.WARNING if reload.ignored else logging.INFO
    _log.log(level, "settings reloaded", changed=list(reload.changed), need_restart=list(reload.ignored))
