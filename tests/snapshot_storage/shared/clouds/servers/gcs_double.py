"""A double of Google Cloud Storage: no server of GCS can be run elsewhere. It speaks the headers of its XML API.

Generations grow with every write. A put with ``x-goog-if-generation-match`` is refused with 412 if the object has another
generation, where 0 stands for none. More writes of one name than ``interval_s`` allows are refused with 429.
"""

import hashlib
import itertools
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

from werkzeug.wrappers import Request, Response

PAGE_KEYS: Final = 1_000
_MODIFIED: Final = "2024-01-01T00:00:00.000Z"


@dataclass(frozen=True)
class _Object:
    content: bytes
    generation: int
    written_s: float

    @property
    def headers(self) -> dict[str, str]:
        return {
            "ETag": f'"{hashlib.md5(self.content).hexdigest()}"',
            "x-goog-generation": str(self.generation),
            "Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT",
            "Accept-Ranges": "bytes",
        }


class GcsDouble:
    """The WSGI application, with one bucket for each name that is asked for."""

    def __init__(self) -> None:
        self.interval_s = 0.0
        """Time between two writes of one name, below which the second is refused."""
        self.refused_writes = 0
        """Writes that were refused with 429."""
        self._objects: dict[str, _Object] = {}
        self._generations = itertools.count(1_700_000_000_000_000)
        self._uploads: dict[str, dict[int, bytes]] = {}

    def store(self, *names: str) -> None:
        """Store empty objects by their names, which begin with the bucket."""
        for name in names:
            self._objects[name] = _Object(b"", next(self._generations), time.monotonic())

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        request = Request(environ)
        query = parse_qs(environ["QUERY_STRING"], keep_blank_values=True)
        bucket, _, key = request.path.strip("/").partition("/")
        if bucket == "missing":
            answer = Response("<Error><Code>NoSuchBucket</Code></Error>", 404)
        elif not key:
            answer = self._list(bucket, query)
        elif request.method == "PUT" and "uploadId" in query:
            content = request.get_data()
            self._uploads[query["uploadId"][0]][int(query["partNumber"][0])] = content
            answer = Response(headers={"ETag": f'"{hashlib.md5(content).hexdigest()}"'})
        elif request.method == "POST":
            answer = self._upload(request, f"{bucket}/{key}", query)
        elif request.method == "PUT":
            answer = self._write(request, f"{bucket}/{key}", request.get_data())
        elif request.method == "DELETE":
            answer = Response(status=204 if self._objects.pop(f"{bucket}/{key}", None) else 404)
        else:
            answer = self._read(request, f"{bucket}/{key}")
        return answer(environ, start_response)

    def _write(self, request: Request, name: str, content: bytes) -> Response:
        present, now_s = self._objects.get(name), time.monotonic()
        expected = request.headers.get("x-goog-if-generation-match")
        if expected is not None and int(expected) != (present.generation if present else 0):
            return Response("<Error><Code>PreconditionFailed</Code></Error>", 412)
        if present and now_s - present.written_s < self.interval_s:
            self.refused_writes += 1
            return Response("<Error><Code>SlowDown</Code></Error>", 429)
        self._objects[name] = written = _Object(content, next(self._generations), now_s)
        return Response(headers=written.headers)

    def _upload(self, request: Request, name: str, query: dict[str, list[str]]) -> Response:
        if "uploads" in query:
            upload = f"upload-{next(self._generations)}"
            self._uploads[upload] = {}
            return Response(
                f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
            )
        parts = self._uploads.pop(query["uploadId"][0])
        answer = self._write(request, name, b"".join(parts[number] for number in sorted(parts)))
        answer.set_data(
            f"<CompleteMultipartUploadResult><ETag>{escape(answer.headers['ETag'])}</ETag></CompleteMultipartUploadResult>"
        )
        return answer

    def _read(self, request: Request, name: str) -> Response:
        found = self._objects.get(name)
        if found is None:
            return Response("<Error><Code>NoSuchKey</Code></Error>", 404)
        asked, size = request.range, len(found.content)
        if asked is None:
            answer = Response(found.content, headers=found.headers)
        elif (within := asked.range_for_length(size)) is None:
            return Response("<Error><Code>InvalidRange</Code></Error>", 416)
        else:
            first, end = within
            answer = Response(found.content[first:end], 206, headers=found.headers)
            answer.headers["Content-Range"] = f"bytes {first}-{end - 1}/{size}"
        return answer

    def _list(self, bucket: str, query: dict[str, list[str]]) -> Response:
        prefix, after = query.get("prefix", [""])[0], query.get("continuation-token", [""])[0]
        keys = sorted(
            name.removeprefix(f"{bucket}/") for name in self._objects if name.startswith(f"{bucket}/{prefix}")
        )
        rest = [key for key in keys if key > after]
        page = rest[:PAGE_KEYS]
        more = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if rest != page else ""
        found = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(listed.content)}</Size>"
            f"<ETag>{escape(listed.headers['ETag'])}</ETag><LastModified>{_MODIFIED}</LastModified></Contents>"
            for key, listed in ((key, self._objects[f"{bucket}/{key}"]) for key in page)
        )
        return Response(f"<ListBucketResult>{found}{more}</ListBucketResult>", content_type="application/xml")
