"""Options of the data source are checked, and the error for a wrong one states the remedy."""

import pytest

from delayed_tracker.cli.spark.options import SourceArguments
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.errors import ErrorPolicy
from delayed_tracker.spark.source.source_options import KeptEntries, parse_options


def test_defaults():
    """Only the URL is required."""
    options = parse_options({"url": "ledger:/data"})
    assert options.urls == ("ledger:/data",)
    assert options.on_error is ErrorPolicy.FAIL
    assert options.kept is KeptEntries.ALL
    assert options.chosen(["a", "b"]) == ["a", "b"]


def test_names_have_any_case_and_load_may_name_the_place():
    """Option names are case-insensitive, because Spark lowers them, and load(path) sets the URL."""
    options = parse_options({"path": "ledger:/data", "onerror": "SKIP", "TOPICSPATTERN": ".*-b"})
    assert options.on_error is ErrorPolicy.SKIP
    assert options.chosen(["x-a", "x-b", "x-b-c"]) == ["x-b"]


def test_a_named_topic_need_not_be_listed():
    """A named topic is not looked up here; the source reports an unknown name, with similar ones."""
    assert parse_options({"url": "ledger:/data", "topic": "orders"}).chosen([]) == [
        "persistent://public/default/orders"
    ]


def test_metadata_and_open_ledgers_are_for_urls_that_do_not_say():
    """The options complete URLs without them; local ledgers have their own metadata, offloaded ones are closed."""
    urls = "bookkeeper+file:/a offload+blob:/b?metadata=other ledger:/c"
    options = parse_options({"url": urls, "metadata": "/the dump&more", "openLedgers": "live"})
    assert options.urls == (
        "bookkeeper+file:/a?metadata=/the%20dump%26more&openLedgers=live",
        "offload+blob:/b?metadata=other",
        "ledger:/c?openLedgers=live",
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "url: '' is not valid; say where the ledgers are"),
        ({"url": "/data"}, "source: '/data' is not valid; give scheme:place"),
        ({"url": "ledger:/d", "topcis": "x"}, "did you mean topic"),
        ({"url": "ledger:/d", "onError": "ignore"}, "onError: 'ignore' is not valid; give fail or skip"),
        ({"url": "ledger:/d", "entries": "some"}, "entries: 'some' is not valid; give all or delayed"),
        ({"url": "ledger:/d", "openLedgers": "x"}, "openLedgers: 'x' is not valid; give live or recovered"),
        ({"url": "ledger:/d", "partitionBytes": "64m"}, "partitionBytes: '64m' is not valid; give a number of bytes"),
        ({"url": "ledger:/d", "partitionBytes": "0"}, "partitionBytes: '0' is not valid"),
        (
            {"url": "ledger:/d", "partitionBytes": "99999999999999"},
            "partitionBytes: '99999999999999' is not valid; give a number of bytes from 1 to 1099511627775",
        ),
        ({"url": "ledger:/d", "topicsPattern": "("}, "topicsPattern: '\\(' is not valid; give a regular expression"),
        ({"url": "ledger:/d", "topicsPattern": "a", "topic": "a"}, "give this or topic, not both"),
    ],
)
def test_wrong_options_say_what_to_give(given: dict[str, str], message: str):
    with pytest.raises(InvalidInput, match=message):
        parse_options(given)


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("nope:foo", "known schemes are "),
        ("ledger:/tmp?metadta=x", "options of ledger are openLedgers"),
        ("bookkeeper+file:/tmp", "add metadata=...: "),
        ("offload+blob:/tmp?openLedgers=live", "options of offload.blob are metadata"),
        ("ledger:/tmp?openLedgers=maybe", "openLedgers is "),
    ],
)
def test_a_source_that_is_no_source_is_refused_before_spark_is_started(url, named):
    """A wrong source is refused before Java starts."""
    with pytest.raises(InvalidInput, match=named):
        SourceArguments([url]).format_options()
