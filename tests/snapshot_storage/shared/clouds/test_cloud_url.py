"""URLs of object stores: parts, bounds, and errors that show no secret."""

import pytest

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.capabilities import ReportsRequests
from delayed_tracker.storage.objects.cloud import GS_INTERVAL_S, open_az, open_gs, open_s3
from delayed_tracker.storage.objects.cloud_url import CloudUrl, parse_cloud_url
from delayed_tracker.storage.registry import open_storage


def test_all_parts():
    """Each key has its place; the prefix has no slash at its end."""
    url = parse_cloud_url("s3", "//bucket/a/b=1,c/?endpoint=http://localhost:9000/&region=eu-1&requests=7&timeout=600")
    assert url == CloudUrl("s3", "bucket", "a/b=1,c", "http://localhost:9000", "eu-1", "", 7, 600)
    assert str(url) == "s3://bucket/a/b=1,c"
    assert parse_cloud_url("gs", "//my.bucket") == CloudUrl("gs", "my.bucket", "")
    assert str(parse_cloud_url("gs", "//my.bucket/")) == "gs://my.bucket"
    assert parse_cloud_url("az", "//container/p?account=name").account == "name"


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("", "write s3://BUCKET/PREFIX"),
        ("bucket", "write s3://BUCKET/PREFIX"),
        ("//", "name of a bucket"),
        ("//user:password@host/p", "name of a bucket"),
        ("//b/p", "name of a bucket"),
        ("//bucket//p", "single slashes"),
        ("//bucket/a/../b", "begins with a dot"),
        ("//bucket/a b", "letters, digits"),
        ("//bucket/a%20b", "letters, digits"),
        ("//bucket/" + "p" * 501, "up to 500"),
        ("//bucket?endpoint=localhost:9000", "write http://HOST:PORT"),
        ("//bucket?endpoint=http://localhost:port", "write http://HOST:PORT"),
        ("//bucket?endpoint=http://localhost:9000?a=b", "write http://HOST:PORT"),
        ("//bucket?region=eu 1", "letters, digits and '-'"),
        ("//bucket?requests=0", "whole number from 1 to 1000"),
        ("//bucket?requests=1001", "whole number from 1 to 1000"),
        ("//bucket?timeout=", "whole number from 1 to 600"),
        ("//bucket?timeout=1.5", "whole number from 1 to 600"),
        ("//bucket?timeout=9&timeout=9", "give it once"),
        ("//bucket?account=name", "give one of endpoint, requests, timeout, region;"),
    ],
)
def test_what_is_malformed_is_refused_with_its_remedy(rest: str, message: str):
    """Each part has an error of its own."""
    with pytest.raises(InvalidInput) as raised:
        open_s3(rest)
    assert message in raised.value.message


@pytest.mark.parametrize(
    "query", ["secret_access_key=hunter2", "endpoint=http://me:hunter2@localhost", "endpoint=localhost/?sig=hunter2"]
)
def test_credentials_in_a_url_are_refused_and_not_shown(query: str):
    """A secret that somebody has put into a URL is not in the message, which goes to a log."""
    for scheme in ("s3", "gs", "az"):
        with pytest.raises(InvalidInput) as raised:
            open_storage(f"{scheme}://bucket/prefix?{query}")
        assert "hunter2" not in raised.value.message


def test_the_schemes_open_their_stores():
    """Each URL gives a storage that counts its requests; that of GCS waits between the writes of a name."""
    for scheme in ("s3", "gs", "az"):
        assert isinstance(open_storage(f"{scheme}://bucket"), ReportsRequests)
    assert open_gs("//bucket")._cloud.min_interval_s == GS_INTERVAL_S > 1
    assert open_s3("//bucket")._cloud.min_interval_s == open_az("//bucket")._cloud.min_interval_s == 0
