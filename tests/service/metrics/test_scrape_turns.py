"""Scrapes share expositions, and leave time for other tasks."""

import asyncio

from delayed_tracker.service.exposition.scrape_turns import ScrapeTurns

TEXT = "text/plain"
OPEN = "application/openmetrics-text"
RENDER_S = 0.02


class Renderer:
    """Renderer that numbers its expositions; each takes a while."""

    def __init__(self):
        self.begun_at = []
        self.ended_at = []

    async def scrape(self, accept=""):
        self.begun_at.append(asyncio.get_running_loop().time())
        number = len(self.begun_at)
        await asyncio.sleep(RENDER_S)
        self.ended_at.append(asyncio.get_running_loop().time())
        return str(number).encode(), accept


async def test_scrapes_at_the_same_time_share_one_exposition():
    """One exposition of each format is rendered for all scrapes that came before it began."""
    renderer = Renderer()
    turns = ScrapeTurns(renderer)
    answers = await asyncio.gather(*(turns.scrape(form) for form in [TEXT, OPEN] * 50))
    assert len(renderer.begun_at) == 2
    assert {(body, form) for body, form in answers} == {(b"1", TEXT), (b"2", OPEN)}


async def test_parameters_make_no_format_of_their_own():
    """Clients that name a hundred versions have two renderings made, also where the version is none."""
    renderer = Renderer()
    turns = ScrapeTurns(renderer)
    versions = [f'{form}; version="{number}.x"' for number in range(50) for form in (TEXT, OPEN)]
    await asyncio.gather(*map(turns.scrape, versions))
    assert len(renderer.begun_at) == 2


async def test_a_scrape_never_gets_what_was_begun_before_it_asked():
    """A scrape that comes during a rendering waits for the next one."""
    renderer = Renderer()
    turns = ScrapeTurns(renderer)
    first = asyncio.create_task(turns.scrape(TEXT))
    while not renderer.begun_at:  # noqa: ASYNC110  # a yield
        await asyncio.sleep(0)
    assert (await turns.scrape(TEXT))[0] == b"2"
    assert (await first)[0] == b"1"


async def test_the_next_rendering_pauses_four_times_as_long():
    """Continuous scrapes take at most a fifth of the time, and the first one does not wait."""
    renderer = Renderer()
    turns = ScrapeTurns(renderer)
    for _ in range(3):
        await turns.scrape(TEXT)
    for begun, ended, next_begun in zip(renderer.begun_at, renderer.ended_at, renderer.begun_at[1:], strict=False):
        assert next_begun - ended >= 3.9 * (ended - begun)


async def test_an_error_is_told_and_the_next_scrape_works():
    """A failed rendering fails the scrapes that waited for it, and no later ones."""

    class Failing(Renderer):
        async def scrape(self, accept=""):
            answer = await super().scrape(accept)
            if len(self.begun_at) == 1:
                raise ValueError(accept)
            return answer

    turns = ScrapeTurns(Failing())
    outcomes = await asyncio.gather(turns.scrape(TEXT), turns.scrape(TEXT), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ValueError, ValueError]
    assert (await turns.scrape(TEXT))[0] == b"2"
