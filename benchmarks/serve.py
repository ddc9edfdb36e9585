"""Load on `egt serve`: many clients at once, and those that do it wrong.

    python -m benchmarks.serve [--model zinc-100k] [--clients 200] [--requests 20000] [--smiles 1] [--minutes 10]

Starts the service on a free port of this machine with a token, and sends from one process, over one open connection
for each client, so many requests in total with random molecules. Prints the latencies, what the service counted, and
its memory over time; then a wrong token, a body that is too large, and clients that send a byte a second while others
ask; then SIGTERM under load. Exits with 1 where a request had no answer, or a wrong one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

TOKEN = "a token of this benchmark"
FRAGMENTS = ("C", "CC", "CCO", "c1ccccc1", "C(=O)O", "N", "CN", "C1CCNCC1", "OC", "C(F)(F)F", "S(=O)(=O)N", "Cl")


@dataclass
class Found:
    """What the clients saw."""

    seconds: list[float] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    sent: int = 0


def molecule(draw: random.Random) -> str:
    """Return a SMILES of some fragments in a chain."""
    return "C" + "".join(draw.choice(FRAGMENTS) for _ in range(draw.randint(1, 8)))


def request(body: bytes, token: str = TOKEN, length: int | None = None) -> bytes:
    """Return a request for predictions as it is sent."""
    lines = ["POST /api/predict HTTP/1.1", "Host: x", f"Authorization: Bearer {token}"]
    lines += ["Content-Type: application/json", f"Content-Length: {len(body) if length is None else length}", "", ""]
    return "\r\n".join(lines).encode() + body


async def reply(reader: asyncio.StreamReader) -> tuple[str, bytes, bool]:
    """Return the status and the body of an answer, and whether it is the last of its connection."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
    body = await reader.readexactly(int(length[1]) if length else 0)
    return head.split()[1], body, "connection: close" in head.lower()


async def ask_often(port: int, number: int, found: Found, options: argparse.Namespace, end: float) -> None:
    """Send requests over one connection, one after the other."""
    draw = random.Random(number)
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while found.sent < options.requests and time.monotonic() < end:
            found.sent += 1
            smiles = [molecule(draw) for _ in range(options.smiles)]
            began = time.monotonic()
            writer.write(request(json.dumps({"smiles": smiles}).encode()))
            status, body, is_last = await reply(reader)
            found.seconds.append(time.monotonic() - began)
            is_right = status != "200" or len(json.loads(body)["predictions"]) == options.smiles
            found.statuses[status if is_right else "another number of rows"] += 1
            if is_last:
                break
        writer.close()
    except (OSError, asyncio.IncompleteReadError) as error:
        found.statuses[type(error).__name__] += 1


async def once(port: int, message: bytes) -> str:
    """Return the status of one answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(message)
    status, _, _ = await reply(reader)
    writer.close()
    return status


async def trickle(port: int) -> float:
    """Send a byte a second of a request that does not end; return the seconds until the service hangs up."""
    began = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for byte in request(b"x" * 1_000)[:120]:
            writer.write(bytes([byte]))
            await writer.drain()
            try:
                await asyncio.wait_for(reader.read(1), 1)
                break
            except TimeoutError:
                continue
    except OSError:
        pass
    writer.close()
    return time.monotonic() - began


async def text_of(port: int, path: str) -> str:
    """Return what the service says of itself."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
    _, body, _ = await reply(reader)
    writer.close()
    return body.decode()


def megabytes(pid: int) -> int:
    """Return the resident memory of a process."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


def processor_seconds(pid: int) -> float:
    """Return the time that a process has computed; beside other work, it says more than the clock."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def shown(seconds: Sequence[float]) -> str:
    """Return percentiles in milliseconds."""
    parts = [f"p{k} {np.percentile(seconds, k) * 1e3:.0f}" for k in (50, 90, 99, 100)]
    return ", ".join(parts) + " ms"


async def load(port: int, pid: int, options: argparse.Namespace) -> bool:
    """Run all parts; whether everything was answered."""
    found, end = Found(), time.monotonic() + 60 * options.minutes
    memory = [megabytes(pid)]

    async def watch() -> None:
        while True:
            await asyncio.sleep(1)
            memory.append(megabytes(pid))

    watching = asyncio.create_task(watch())
    began, computed = time.monotonic(), processor_seconds(pid)
    await asyncio.gather(*(ask_often(port, number, found, options, end) for number in range(options.clients)))
    took, computed = time.monotonic() - began, processor_seconds(pid) - computed
    watching.cancel()
    quarter = max(1, len(memory) // 4)
    parts = [memory[k * quarter : (k + 1) * quarter] or memory[-1:] for k in range(4)]
    print(f"{options.clients} clients, {found.sent:,} requests of {options.smiles} SMILES in {took:.1f} s: ", end="")
    print(f"{found.sent / took:.0f} a second; {shown(found.seconds)}; {dict(found.statuses)}")
    print(
        f"{computed / max(found.sent, 1) * 1e3:.2f} ms of processor time each (load average {os.getloadavg()[0]:.0f})"
    )
    print(f"memory {memory[0]} MB before, {', '.join(f'{max(part)}' for part in parts)} MB in the quarters")
    print("\n".join(line for line in (await text_of(port, "/metrics")).splitlines() if "seconds" not in line))
    is_whole = set(found.statuses) == {"200"} and len(found.seconds) == found.sent

    wrong = await once(port, request(b'{"smiles": ["C"]}', token="wrong"))
    large = await once(port, request(b"x" * 6_000_000))
    print(f"wrong token {wrong}; 6 MB {large}")
    few = argparse.Namespace(requests=2_000, smiles=1)
    beside = Found()
    slow = [asyncio.create_task(trickle(port)) for _ in range(100)]
    began = time.monotonic()
    await asyncio.gather(*(ask_often(port, number, beside, few, began + 60) for number in range(50)))
    print(f"beside 100 clients that send a byte a second: {shown(beside.seconds)}; {dict(beside.statuses)}")
    print(f"those are hung up on after {max(await asyncio.gather(*slow)):.0f} s at most")
    last = Found()
    clients = [asyncio.create_task(ask_often(port, k, last, options, time.monotonic() + 60)) for k in range(50)]
    await asyncio.sleep(2)
    os.kill(pid, signal.SIGTERM)
    await asyncio.gather(*clients)
    print(f"SIGTERM under load: {len(last.seconds)} answers, {dict(last.statuses)}")
    return is_whole and wrong == "401" and large == "413" and set(beside.statuses) == {"200"}


def main() -> None:
    """Start the service, and put it under load."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="zinc-100k")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--smiles", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=10)
    options = parser.parse_args()
    words = [sys.executable, "-m", "egt", "serve", options.model, "--port", "0"]
    process = subprocess.Popen(words, env={**os.environ, "EGT_TOKEN": TOKEN}, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        address = next(found for line in process.stderr if (found := re.search(r"127\.0\.0\.1:(\d+)", line)))
        is_right = asyncio.run(load(int(address[1]), process.pid, options))
        code = process.wait(60)
    finally:
        process.kill()
    print(f"exit code {code}")
    sys.exit(not is_right or bool(code))


if __name__ == "__main__":
    main()
