"""`egt serve`: a trained model as a service over HTTP."""

from __future__ import annotations

import os
import signal
from threading import Thread
from types import FrameType

from egt.cli.output import Settings, say


def serve(artifact: str, *, host: str = "127.0.0.1", port: int = 8000, settings: Settings = ()) -> None:
    """Answer predictions over HTTP: POST /api/predict, /api/upload; GET /health, /metrics, /openapi.json, /api/about.

    With the environment variable EGT_TOKEN, each request but /health has to give it as `Authorization: Bearer TOKEN`;
    other machines are answered only then. SIGTERM or Ctrl-C ends it when the requests that are here are answered.

    Args:
        artifact: The folder that `egt train` wrote; of an ensemble too.
        host: The address to listen on; 0.0.0.0 for other machines.
        port: The port to listen on; 0 takes any that is free.
        settings: Settings to change, as path=value: overrides.smiles, overrides.id.
    """
    from egt.explain.page.service import Service

    with Service.of(artifact, port, settings, host=host, token=os.environ.get("EGT_TOKEN") or None) as service:

        def stop(number: int, _: FrameType | None) -> None:
            signal.signal(number, signal.SIG_DFL)  # the second time it ends at once
            Thread(target=service.shutdown).start()

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)
        service.session.warm_up()
        say(f"{artifact} is served at {service.url} (Ctrl-C ends it)")
        service.serve_forever()
    say("all requests are answered")
