"""How a long piece of work tells how far it is."""

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Called with what is done so far and what there is in all, now and then, and once at the end. Each job says in what
unit: bytes, or entries, those that are passed over among them."""
