"""Artifacts of a model hub, by the address `hf://OWNER/NAME@REVISION`: fetched once, checked as any other."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from egt.errors import ArtifactError

_ADDRESS = re.compile(r"hf://(?P<repository>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?")
_COMMIT = re.compile(r"[0-9a-f]{40}")

log = logging.getLogger(__name__)


def fetch(address: str, files: Sequence[str]) -> Path:
    """Return the folder of an artifact in the local cache of `huggingface_hub`, downloaded if it is not there.

    A name or branch may mean something else tomorrow: without a commit as the revision there is a warning with the one
    that was found.

    Args:
        address: of the artifact.
        files: all that is fetched, names or patterns: no pickles, no code.

    Raises:
        ArtifactError: the address is wrong, there is no such artifact, or the hub cannot be reached.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise ArtifactError(f"{address}: is not the address of a model, which has the form hf://OWNER/NAME@REVISION")
    hub, revision = _require_hub(), match["revision"]
    try:
        folder = Path(hub.snapshot_download(match["repository"], revision=revision, allow_patterns=list(files)))
    except Exception as error:  # its errors have no common kind; whichever it is, the model is not here
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise ArtifactError(
            f"{address}: cannot be fetched ({reason}); check the name, the revision and the network"
        ) from error
    if revision is None or not _COMMIT.fullmatch(revision):
        pinned = f"hf://{match['repository']}@{folder.name}"
        log.warning("%s may be another model tomorrow; always the same one is %s", address, pinned)
    return folder


def _require_hub() -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise ArtifactError('models of a hub need huggingface_hub: pip install "egt-graph[hub]"') from error
    return huggingface_hub
