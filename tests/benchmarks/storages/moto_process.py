"""Serve moto's S3 until stdin ends; the first line of stdout is the URL of its one bucket.

python -m tests.benchmarks.storages.moto_process
"""

import sys

from moto.moto_server.werkzeug_app import create_backend_app

from tests.snapshot_storage.shared.clouds.servers.wsgi_server import WsgiServer

BUCKET = "bucket"


def main() -> None:
    """Serve one bucket."""
    with WsgiServer(create_backend_app("s3")).running() as server:
        server.request("PUT", f"/{BUCKET}")
        print(f"{server.endpoint}/{BUCKET}", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
