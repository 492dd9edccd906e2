"""What of the window is spoken for before anyone has said a word, and what a day of it costs. Pure.

Invariant: rung 6 is predicted with the very sum by which a life is ended: `runtime.core.budget.misfit`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from npc.constitution import Constitution
from npc.context import Context, tail
from npc.doctor.finding import Finding, fine, warn, wrong
from npc.persona import Persona
from runtime.core.budget import SMALLEST_OBSERVATION, Budget, Part, misfit
from runtime.core.calibration import START
from runtime.core.messages import Count
from runtime.core.session import Settings
from runtime.core.values import Usage
from runtime.model.prices import dollars
from runtime.model.profiles import Profile

#: Less room than this for the history, in tokens, is forgotten within a few lines of talk.
LITTLE = 1_500
#: How long a provider keeps a cached prefix after its last use, in seconds.
CACHED_S = 300.0
#: What one call is taken to add and to answer when days are estimated, in tokens.
NEWS, ANSWER = 150, 120
#: Model calls of a turn in which something is done.
CALLS = 2
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Sizes in the provider's tokens, estimated as at the start of a life.

    Attributes:
        budget: of the window.
        fixed: tools, world rules, persona and constitution, each by its name.
        tail: the few words at the end of every request.
        history: what is kept of the history on average, between the two marks.
        request: tools and system part as they are sent, for an endpoint that counts.
    """

    budget: Budget
    fixed: tuple[Part, ...]
    tail: int
    history: int
    request: Mapping[str, Any]

    @property
    def prefix(self) -> int:
        """What every request begins with."""
        return sum(part.tokens for part in self.fixed)

    @property
    def left(self) -> int:
        """What is left for the history; below zero, what is missing."""
        return self.budget.usable - self.prefix - self.tail - SMALLEST_OBSERVATION

    @property
    def parts(self) -> tuple[Part, ...]:
        """All of the window, part by part."""
        return (
            *self.fixed,
            Part(name="standing rules and meters at the end", tokens=self.tail),
            Part(name="output reserve", tokens=self.budget.reserve),
            Part(name="safety margin", tokens=self.budget.window - self.budget.usable - self.budget.reserve),
            Part(name="smallest observation", tokens=SMALLEST_OBSERVATION),
            Part(name="left for the history", tokens=self.left),
        )

    @property
    def fits(self) -> bool:
        """Whether a life could begin."""
        return misfit(self.budget, self.fixed) is None


def measure(who: Persona, settings: Settings, constitution: Constitution, tools: Sequence[Mapping[str, Any]], count: Count) -> Sizes:
    """The sizes of this persona with these tools and rules."""
    fixed = Context(who, count).fixed([dict(tool) for tool in tools], 0, constitution)
    end = count(
        tail(constitution, gates="", step=0, steps=settings.steps_per_turn, dollars=0.0, cap=settings.dollars_per_day, window=0.0)
    )
    room = settings.budget.room(fixed=fixed.tokens, factor=START, tail=end)
    return Sizes(
        budget=settings.budget,
        fixed=tuple(Part(name=name, tokens=int(raw * START) + 1) for name, raw in fixed.sizes),
        tail=int(end * START) + 1,
        history=int((room.low + room.high) / 2 * START),
        request={
            "system": [{"type": "text", "text": text} for text in fixed.system],
            "tools": list(fixed.tools),
            "messages": [{"role": "user", "content": "."}],
        },
    )


def check_window(sizes: Sizes, where: str) -> Finding:
    """Rung 6, before it happens. `where` are the files that could be shortened."""
    if not sizes.fits:
        need = sizes.budget.window - sizes.budget.usable + sizes.prefix + SMALLEST_OBSERVATION
        what = (
            f"nothing fits (rung 6): the request's own parts need {need:,} tokens, the window has {sizes.budget.window:,}; npc attach "
            "would end at once with exit code 3"
        )
        return wrong("window", what, f"shorten {where}, or give a larger --window (model.window in the persona)", code=3)
    if sizes.left < LITTLE:
        what = f"only {max(0, sizes.left):,} of {sizes.budget.window:,} tokens are left for the history: it forgets after a few lines"
        return warn("window", what, f"shorten {where}, or give a larger --window (model.window in the persona)")
    return fine("window", f"{sizes.left:,} of {sizes.budget.window:,} tokens are left for the history")


def check_limits(who: Persona, facts: Profile, told: int | None) -> list[Finding]:
    """The persona's sizes against the model's; `told` is the window by the endpoint's word."""
    out = []
    most = told or (facts.context if facts.known else 0)
    if 0 < most < who.model.window:
        what = f"window = {who.model.window:,} is more than {who.model.id} has ({most:,} tokens)"
        out.append(warn("window", what, f"write window = {most} or less under [model]"))
    if facts.known and (who.model.output_tokens or 0) > facts.max_output:
        what = f"output_tokens = {who.model.output_tokens:,} is more than {who.model.id} writes ({facts.max_output:,}): it is cut to that"
        out.append(warn("window", what, f"write output_tokens = {facts.max_output} or less under [model]"))
    return out


def check_cacheable(sizes: Sizes, facts: Profile, counted: int | None) -> Finding:
    """Whether the stable beginning of a request is long enough to be cached; `counted` is its size by the endpoint's word."""
    size = counted or sizes.prefix
    by = "counted by the endpoint" if counted else "estimated"
    if not facts.known:
        return fine("cache", f"what {facts.model} can cache is not known: its cache reads are watched while the NPC lives")
    missing = facts.min_cacheable - size
    if missing <= 0:
        return fine("cache", f"the stable beginning has {size:,} tokens ({by}); {facts.model} caches from {facts.min_cacheable:,} on")
    full, read = dollars(facts.model, Usage(input_tokens=size)), dollars(facts.model, Usage(cache_read_tokens=size))
    cost = f": ${1_000 * (full - read):.2f} more for 1,000 calls" if full is not None and read is not None else ""
    what = (
        f"the stable beginning has {size:,} tokens ({by}), {missing:,} fewer than {facts.model} caches ({facts.min_cacheable:,}); until "
        f"the history makes up for it every call pays the full price{cost}"
    )
    return warn("cache", what, f"say more about the character (some {missing:,} tokens), or take a model that caches less")


@dataclass(frozen=True, slots=True, kw_only=True)
class Days:
    """Estimates in dollars: a day on which nothing happens (`wakes` of them), and an hour in which something always does."""

    wakes: int
    quiet_day: float
    busy_hour: float


def days(who: Persona, sizes: Sizes, facts: Profile) -> Days | None:
    """What it costs to live; None where the model has no known price."""
    wakes = wakes_a_day(who.wake.idle_s, who.wake.idle_max_s)
    quiet = _call(sizes, facts, cached=who.wake.idle_max_s < CACHED_S)
    busy = _call(sizes, facts, cached=who.wake.idle_s < CACHED_S)
    if quiet is None or busy is None:
        return None
    return Days(wakes=wakes, quiet_day=wakes * quiet, busy_hour=CALLS * busy * 3_600 / max(1.0, who.wake.idle_s))


def wakes_a_day(idle_s: float, idle_max_s: float) -> int:
    """How often it wakes by itself in a day without news, each wait twice as long as the one before, up to the longest."""
    at, wait, wakes = 0.0, idle_s, 0
    while at + wait <= DAY_S:
        if wait >= idle_max_s:
            return wakes + int((DAY_S - at) // wait)
        at, wait, wakes = at + wait, min(2 * wait, idle_max_s), wakes + 1
    return wakes


def _call(sizes: Sizes, facts: Profile, *, cached: bool) -> float | None:
    """Dollars of one call, its prefix read from the cache or, where that is cold by then, written anew."""
    prefix = sizes.prefix + sizes.history
    if prefix < facts.min_cacheable:
        usage = Usage(input_tokens=prefix + NEWS, output_tokens=ANSWER)
    elif cached:
        usage = Usage(cache_read_tokens=prefix, cache_write_tokens=NEWS, output_tokens=ANSWER)
    else:
        usage = Usage(cache_write_tokens=prefix + NEWS, output_tokens=ANSWER)
    return dollars(facts.model, usage)


def check_cost(who: Persona, estimate: Days | None, *, billed: bool) -> Finding:
    """The estimate against the cap. `billed`: the endpoint is the provider's own, where everything has a price."""
    cap = who.budget.dollars_per_day
    if estimate is None:
        what = f"no price is known for {who.model.id}: its calls are counted as free, so dollars_per_day = {cap:g} cannot hold it"
        if billed:
            return warn("cost", what, "take a model whose price is known, or set a spend limit at the provider")
        return fine("cost", what)
    if cap == 0:
        what = "dollars_per_day = 0: no call is made at all, it lives on reflexes alone"
        return warn("cost", what, "write what a day may cost as dollars_per_day under [budget]")
    if estimate.quiet_day > cap:
        what = (
            f"waking every {who.wake.idle_max_s:g} s costs about ${estimate.quiet_day:.2f} on a day without news, more than "
            f"dollars_per_day = {cap:g}"
        )
        return warn("cost", what, "wake more rarely (idle_s, idle_max_s), take a cheaper model, or raise dollars_per_day")
    lasts = cap / estimate.busy_hour if estimate.busy_hour else DAY_S / 3_600
    busy = f"with a turn every {who.wake.idle_s:g} s about ${estimate.busy_hour:.3f} an hour"
    if lasts < 1:
        what = f"{busy}: dollars_per_day = {cap:g} is spent after {60 * lasts:.0f} minutes, then it lives on reflexes"
        return warn("cost", what, "raise dollars_per_day, raise idle_s, give a smaller window, or take a cheaper model")
    held = "all day" if lasts >= 24 else f"for {lasts:.0f} hours"
    return fine(
        "cost",
        f"about ${estimate.quiet_day:.3f} on a day without news ({estimate.wakes:,} wakes); {busy}; dollars_per_day = {cap:g} lasts {held}",
    )
