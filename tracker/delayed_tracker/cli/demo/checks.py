"""Claims of the demo: each is checked and printed; the command succeeds only if all of them held."""

from dataclasses import dataclass, field

from rich.console import Console


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement, and the result of its check."""

    statement: str
    held: bool
    seen: str


@dataclass(slots=True)
class Checks:
    """Collector that prints each claim when it is made."""

    console: Console
    claims: list[Claim] = field(default_factory=list)

    def claim(self, statement: str, held: bool, *, seen: object = "") -> None:
        """Record if a statement held, with the observed value."""
        made = Claim(statement, held, str(seen))
        self.claims.append(made)
        mark = "[green]ok[/]  " if held else "[bold red]FAIL[/]"
        self.console.print(f"  {mark} {statement}" + (f": {seen}" if made.seen else ""), highlight=False)

    def equal(self, statement: str, seen: object, expected: object) -> None:
        """Record if the observed value is the expected one."""
        self.claim(statement, seen == expected, seen=seen if seen == expected else f"{seen}, not {expected}")

    @property
    def failed(self) -> tuple[Claim, ...]:
        """Claims that did not hold."""
        return tuple(claim for claim in self.claims if not claim.held)
