"""The pages as a web application.

Invariant: only reading, only for the host names that it was told, with headers that let a page load nothing from elsewhere. A wrong address
is a page that says where to go on. Pages hold a bounded part of a diary, so their size does not grow with a life.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import jinja2
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from diaries.calendar import file_name
from diaries.entry import Entry
from diaries.reader import view
from diaries.reader.behind import Look
from diaries.search import Term, snippet, terms_of
from diaries.shelf import Day, Hit, Hits, Shelf, Volume

HERE = Path(__file__).parent

#: Entries on one page of a day, and results on one page of a search.
DAY_PAGE = 40
RESULTS_PAGE = 20
#: Days shown beside a day, to each side.
NEAR = 5
TAGS = 12
#: Months whose days the contents show; the others are a link each.
MONTHS = 2
#: New entries that a page takes in at once; beyond it the reader is asked to load it again.
NEWEST = 20

_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


def application(shelf: Shelf, *, look: Look | None = None, hosts: Collection[str] | None = None) -> ASGIApp:
    """The pages of these diaries.

    Args:
        shelf: the diaries; looked after at each request.
        look: finds the events behind an entry; None leaves that part out.
        hosts: the names by which the server may be asked (`localhost`); others are refused, so that no foreign page can read along under
            a name of its own. None allows any.
    """
    pages = _Pages(shelf, look)
    routes = [
        Route("/", pages.shelf),
        Route("/npc/{key}", pages.newest),
        Route("/npc/{key}/contents", pages.contents),
        Route("/npc/{key}/day/{slug}", pages.day),
        Route("/npc/{key}/entry/{id:path}", pages.entry),
        Route("/npc/{key}/behind/{id:path}", pages.behind),
        Route("/npc/{key}/new", pages.new),
        Route("/search", pages.search),
        Route("/assets/{name}", pages.asset),
    ]
    return _Guard(Starlette(routes=routes, exception_handlers={HTTPException: pages.wrong}), hosts)


class _Guard:
    """Refuses foreign host names and everything but reading, and gives every answer its headers."""

    def __init__(self, app: ASGIApp, hosts: Collection[str] | None) -> None:
        self._app = app
        self._hosts = None if hosts is None else frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        app: ASGIApp = self._app
        if self._hosts is not None and _host(scope) not in self._hosts:
            app = PlainTextResponse("This diary is read under the address that `npc diary serve` printed.\n", status_code=421)
        await app(scope, receive, with_headers)


def _host(scope: Scope) -> str:
    """The host name that was asked for, without its port."""
    header = next((value for name, value in scope["headers"] if name == b"host"), b"").decode("latin-1").casefold()
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.rpartition(":")[0] if ":" in header else header


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A page of a longer list: its number, how many there are, and where it starts."""

    number: int
    count: int
    start: int
    end: int


def _part(total: int, size: int, asked: str) -> _Part:
    count = max(1, -(-total // size))
    number = min(max(1, int(asked)), count) if asked.isdecimal() and len(asked) < 9 else 1
    return _Part(number=number, count=count, start=(number - 1) * size, end=min(number * size, total))


class _Pages:
    """One method an address."""

    def __init__(self, shelf: Shelf, look: Look | None) -> None:
        self._shelf, self._look = shelf, look
        self._templates = environment()
        self._assets = {name: (HERE / "static" / name).read_bytes() for name in ("book.css", "book.js")}
        version = hashlib.sha256(b"".join(self._assets.values())).hexdigest()[:12]
        self._templates.globals["version"] = version

    # -- pages

    async def shelf(self, request: Request) -> Response:  # noqa: ARG002 (the shape of a route)
        volumes = await run_in_threadpool(self._shelf.refresh)
        if len(volumes) == 1:
            return RedirectResponse(view.path("npc", volumes[0].source.key), status_code=307)
        books = [(volume, view.view_entry(volume, volume.entries[-1]) if volume.entries else None) for volume in volumes]
        return self._page("shelf.html", volumes=volumes, books=books)

    async def newest(self, request: Request) -> Response:
        volume, volumes = await self._volume(request)
        if not volume.days:
            return self._page("empty.html", volume=volume, volumes=volumes)
        # The day of the newest entry: after the world was set back it need not be the last that was begun.
        day = volume.day(file_name(volume.entries[-1].page)) or volume.days[-1]
        part = request.query_params.get("page", "") or str(-(-len(day.entries) // DAY_PAGE))
        return self._day(volume, volumes, day, part)

    async def day(self, request: Request) -> Response:
        volume, volumes = await self._volume(request)
        day = volume.day(request.path_params["slug"])
        if day is None:
            raise HTTPException(404, f"{volume.source.name}'s diary has no such day.")
        return self._day(volume, volumes, day, request.query_params.get("page", ""))

    async def contents(self, request: Request) -> Response:
        volume, volumes = await self._volume(request)
        months: dict[str, list[Day]] = {}
        for day in reversed(volume.days):
            months.setdefault(day.entries[0].day[:7], []).append(day)
        asked = request.query_params.get("month", "")
        shown = [asked] if asked in months else list(months)[:MONTHS]
        return self._page("contents.html", volume=volume, volumes=volumes, months=months, shown=shown, alone=asked in months)

    async def entry(self, request: Request) -> Response:
        volume, volumes = await self._volume(request)
        entry = self._entry(volume, request)
        place = volume.places[entry.id]
        return self._page(
            "entry.html",
            volume=volume,
            volumes=volumes,
            one=self._view(volume, entry),
            before=volume.entries[place - 1] if place else None,
            after=volume.entries[place + 1] if place + 1 < len(volume.entries) else None,
        )

    async def behind(self, request: Request) -> Response:
        volume, volumes = await self._volume(request)
        entry = self._entry(volume, request)
        if self._look is None or not entry.events:
            raise HTTPException(404, "This entry names no events.")
        first, last = entry.events
        asked = request.query_params.get("from", "")
        start = min(max(first, int(asked)), last) if asked.isdecimal() and len(asked) < 20 else first
        happened = await run_in_threadpool(self._look, volume.source.key, start, last)
        part = request.query_params.get("part") == "1"
        return self._page(
            "_behind.html" if part else "behind.html", volume=volume, volumes=volumes, one=self._view(volume, entry), happened=happened
        )

    async def new(self, request: Request) -> Response:
        """What was written after an entry, for a page that is open: the parts of its own day as markup, the rest by number."""
        volume, _ = await self._volume(request)
        entries = volume.after(request.query_params.get("after", ""))
        slug = request.query_params.get("day", "")
        here = [entry for entry in entries[:NEWEST] if file_name(entry.page) == slug]
        macro = self._templates.get_template("_entry.html").module
        return JSONResponse(
            {
                "count": len(entries),
                "last": entries[:NEWEST][-1].id if entries else "",
                "elsewhere": len(entries[:NEWEST]) - len(here),
                "href": view.path("npc", volume.source.key),
                "html": "".join(str(macro.article(self._view(volume, entry))) for entry in here),  # type: ignore[attr-defined]
            },
            headers={"cache-control": "no-store"},
        )

    async def search(self, request: Request) -> Response:
        volumes = await run_in_threadpool(self._shelf.refresh)
        asked = {name: request.query_params.get(name, "").strip()[:500] for name in ("q", "npc", "tag", "day")}
        terms = terms_of(asked["q"])
        hits = await run_in_threadpool(self._find, volumes, terms, asked)
        part = _part(len(hits.hits), RESULTS_PAGE, request.query_params.get("page", ""))
        results = [
            (view.view_entry(hit.volume, hit.entry), snippet(hit.entry.text, terms), hit.volume)
            for hit in hits.hits[part.start : part.end]
        ]
        one = next((volume for volume in volumes if volume.source.key == asked["npc"]), volumes[0] if len(volumes) == 1 else None)
        tags = sorted({tag for volume in volumes for tag, _ in volume.tags[:40]})
        return self._page(
            "search.html", volumes=volumes, volume=one, asked=asked, terms=terms, hits=hits, results=results, part=part, all_tags=tags
        )

    async def asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._assets:
            raise HTTPException(404, "There is no such file.")
        kind = "text/css" if name.endswith(".css") else "text/javascript"
        return Response(self._assets[name], media_type=kind, headers={"cache-control": "public, max-age=31536000, immutable"})

    async def wrong(self, request: Request, error: Exception) -> Response:  # noqa: ARG002 (the shape of a handler)
        status = error.status_code if isinstance(error, HTTPException) else 500
        words = error.detail if isinstance(error, HTTPException) and error.detail.endswith(".") else "There is no such page."
        volumes = await run_in_threadpool(self._shelf.refresh)
        page = self._page("wrong.html", volumes=volumes, volume=volumes[0] if len(volumes) == 1 else None, words=words)
        page.status_code = status
        return page

    # -- parts

    def _day(self, volume: Volume, volumes: Sequence[Volume], day: Day, asked: str) -> Response:
        part = _part(len(day.entries), DAY_PAGE, asked)
        before, after = volume.around(day.slug, NEAR)
        return self._page(
            "day.html",
            volume=volume,
            volumes=volumes,
            day=day,
            part=part,
            before=before,
            after=after,
            entries=[self._view(volume, entry) for entry in day.entries[part.start : part.end]],
            live=day.entries[-1] is volume.entries[-1] and part.number == part.count,
            tags=volume.tags[:TAGS],
        )

    def _find(self, volumes: Sequence[Volume], terms: Sequence[Term], asked: dict[str, str]) -> Hits:
        def meant(hit: Hit) -> bool:
            return (
                (not asked["npc"] or hit.volume.source.key == asked["npc"])
                and (not asked["tag"] or asked["tag"] in hit.entry.tags)
                and (not asked["day"] or asked["day"].casefold() in (hit.entry.day, hit.entry.page.casefold()))
            )

        if terms:
            return self._shelf.search(terms, meant)
        if not any(asked.values()):
            return Hits(hits=())
        every = (Hit(volume=volume, entry=entry) for volume in volumes for entry in volume.entries)
        return Hits(hits=tuple(sorted(filter(meant, every), key=lambda hit: hit.entry.at, reverse=True)))

    def _view(self, volume: Volume, entry: Entry) -> view.EntryView:
        return view.view_entry(volume, entry, behind=self._look is not None)

    async def _volume(self, request: Request) -> tuple[Volume, tuple[Volume, ...]]:
        volumes = await run_in_threadpool(self._shelf.refresh)
        for volume in volumes:
            if volume.source.key == request.path_params["key"]:
                return volume, volumes
        raise HTTPException(404, "No diary stands here under this name.")

    @staticmethod
    def _entry(volume: Volume, request: Request) -> Entry:
        entry = volume.entry(request.path_params["id"])
        if entry is None:
            raise HTTPException(404, f"{volume.source.name}'s diary has no such entry.")
        return entry

    def _page(self, template: str, **words: Any) -> HTMLResponse:
        return HTMLResponse(self._templates.get_template(template).render(**words), headers={"cache-control": "no-cache"})


def environment() -> jinja2.Environment:
    """The templates, with everything escaped that is not marked as markup of theirs."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals |= {
        "day_title": view.day_title,
        "dates_words": view.dates_words,
        "month_words": view.month_words,
        "clock_words": view.clock_words,
        "count_words": view.count_words,
        "path": view.path,
        "entry_href": view.entry_href,
        "tag_href": view.tag_href,
        "urlencode": urlencode,
    }
    return templates


