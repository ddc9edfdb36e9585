"""`egt app`: a trained model as a page in the browser."""

from __future__ import annotations

import webbrowser
from threading import Thread

from egt.cli.output import Settings, say


def app(artifact: str, *, port: int = 8765, browser: bool = True, settings: Settings = ()) -> None:
    """Open a page in the browser: predict, see what the model looks at, and why it says what it says.

    Only this machine can reach it, and it needs no network. Ctrl-C ends it.

    Args:
        artifact: The folder that `egt train` wrote; of an ensemble too.
        port: The port to listen on; 0 takes any that is free.
        browser: Open the page in the browser; otherwise only its address is printed.
        settings: Settings to change, as path=value: overrides.smiles, overrides.id.
    """
    from egt.explain.page.server import Server

    with Server.of(artifact, port, settings) as server:
        Thread(target=server.session.warm_up, daemon=True).start()
        say(f"the page of {artifact} is at {server.url} (Ctrl-C ends it)")
        if browser:
            webbrowser.open(server.url)
        server.serve_forever()
