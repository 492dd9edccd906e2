"""A diary server of a test: started as a person starts it, asked over HTTP, stopped by its process id."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    text: str
    headers: dict[str, str]


@dataclass(frozen=True)
class Served:
    """A running server; `url` ends with a slash."""

    url: str
    npcs: list[str]

    def get(self, path: str, *, host: str = "", method: str = "GET") -> Answer:
        """One request to it."""
        request = urllib.request.Request(self.url.rstrip("/") + path, headers={"Host": host} if host else {}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return Answer(answer.status, answer.read().decode(), {k.lower(): v for k, v in answer.headers.items()})
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.read().decode(), {k.lower(): v for k, v in error.headers.items()})


@contextmanager
def diary_server(home: Path, *options: str) -> Iterator[Served]:
    """`npc diary serve` over a home or a folder of homes; ended as by Ctrl-C, which must be its success."""
    command = [sys.executable, "-m", "npc", "diary", "serve", "--home", str(home), "--port", "0", "--json", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, process.stderr.read() if process.stderr else ""
            told = json.loads(line)
            yield Served(told["url"], told["npcs"])
        finally:
            process.send_signal(signal.SIGINT)
            _, trouble = process.communicate(timeout=60)
        assert (process.returncode, trouble) == (0, "")
