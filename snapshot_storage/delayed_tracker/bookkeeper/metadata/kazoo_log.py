"""Silences the log of kazoo, the ZooKeeper client. Needs no kazoo, which readers of dumps do not install."""

import logging


def quiet_logger() -> logging.Logger:
    """Return a silent logger for kazoo, which logs each attempt to connect. Its callers raise failures as exceptions."""
    logger = logging.getLogger(f"{__name__}.client")
    logger.setLevel(logging.CRITICAL + 1)
    return logger
