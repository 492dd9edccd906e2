"""Keeps what was told in confidence: knows who is being answered, and looks at all words before they leave.

Invariants: nothing is said, by no action, that carries a confidence to somebody else, whatever the mind was told to say; who somebody is
goes by the world's id, and a name that two of them bear is nobody's. What is refused is an event, without the words.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from npc.claims import plain
from npc.confidence import GUESSES, LINES, LONGEST, Audience, Confidences, Leak, Secret, odd_words, parts
from npc.hearing import Ears, Heard
from npc.told import from_journal
from runtime.store.errors import StoreError
from runtime.store.journal import Journal
from runtime.store.memories import PUBLIC, Reader, content_words

#: Actions that only whom they name can hear.
CLOSED = frozenset({"whisper", "tell", "page"})
#: Arguments of such names are entered somewhere, and said to nobody.
_ENTERED = frozenset({"code", "password", "passphrase", "combination", "pin", "key"})
#: Names that are known, own lines that are seen together, and characters of those.
NAMES, RECENT, RECENT_CHARS = 4_096, 8, 600
#: How many of the newest observations are looked at: when a life begins, and for whether a word is known to all anyway.
READ, LOOKED_AT = 1_000, 300
#: How many parts of a text may be known to all before the next one counts as carried without a look.
CHECKED = 32


class Discretion:
    """Of one NPC over its journal. `known` are texts that are no secret; `me` gives its own id, `common` knows everyday words."""

    def __init__(
        self, journal: Journal, *, ears: Ears, me: Callable[[], str], known: Iterable[str] = (),
        common: Callable[[str], bool] = lambda _: False,
    ) -> None:  # fmt: skip
        self._journal, self._ears, self._me = journal, ears, me
        self._confidences = Confidences(known=known, common=common)
        self._names: OrderedDict[str, set[str]] = OrderedDict()
        self._people: set[str] = set()
        self._turn = -1
        self._recent: deque[tuple[Audience, str]] = deque(maxlen=RECENT)
        self.askers: frozenset[str] = frozenset()  # who is being answered in this turn
        self.world: str | None = None

    @property
    def people(self) -> Mapping[str, set[str]]:
        """Names that are known, folded, and who bears each."""
        return self._names

    async def take_up(self) -> None:
        """What earlier lives were told."""
        for memory in await self._journal.confided(limit=LINES):
            self._named(memory.speaker, memory.subject)
            self._keep(memory.speaker, memory.subject, memory.text, memory.sensitivity, memory.event)
        for event in await self._journal.events(kinds=("observation",), limit=READ, newest=True):
            self.learn(self._ears.heard(from_journal(event.data), self._me()), event.id)

    def learn(self, lines: Sequence[Heard], event: int) -> None:
        """Lines were heard: the names in them are known, and the confidences kept, whether they are remembered or not."""
        for line in lines:
            self._named(line.speaker, line.subject)
            if line.sensitivity != PUBLIC:
                self._keep(line.speaker, line.subject, line.text, line.sensitivity, event)

    def _keep(self, speaker: str, subject: str, text: str, sensitivity: int, event: int) -> None:
        self._confidences.add(Secret(subject=subject, speaker=speaker, text=text, sensitivity=sensitivity, event=event))

    def _named(self, name: str, subject: str) -> None:
        key = plain(name)
        bearers = self._names.pop(key, set())
        if subject:
            bearers.add(subject)
        self._names[key] = bearers
        self._people.update(parts(name))
        if len(self._names) > NAMES:
            self._names.popitem(last=False)
            self._people = {part for known in self._names for part in parts(known)}

    def hears(self, lines: Iterable[Heard], *, turn: int) -> None:
        """Lines that the mind takes in now, in this turn: whoever means it is being answered."""
        if turn != self._turn:
            self._turn, self.askers = turn, frozenset()
        self.askers |= {line.subject for line in lines if line.addressed and line.subject}

    def who(self, name: str) -> frozenset[str]:
        """Whom an id or a name means; nobody, where several bear it."""
        bearers = self._names.get(plain(name), set())
        by_id = f"id:{name}"
        if any(by_id in one for one in self._names.values()):
            return frozenset({by_id})
        return frozenset(bearers) if len(bearers) == 1 else frozenset()

    # ------------------------------------------------------------ before words leave
    async def refusal(self, action: str, arguments: Mapping[str, Any], *, to: str = "") -> str:
        """Why an action is not to be done because of what its words would carry, "" if nothing speaks against it."""
        text = " ".join(word for name, value in arguments.items() if name not in _ENTERED for word in _words(value))
        if len(text) > LONGEST and self._confidences.any:
            self._journal.append("confidence kept", {"name": action, "why": f"more than {LONGEST:,} characters at once"})
            return f"it is too long to be looked through for what was told in confidence: at most {LONGEST:,} characters at once"
        closed = action in CLOSED
        audience = Audience(subjects=self.who(to) if closed else self.askers, closed=closed)
        leak = await self.carried(text, audience) or await self._together(text, audience)
        if leak is None:
            self._recent.append((audience, text))
            return ""
        secret = leak.secret
        self._journal.append("confidence kept", {"name": action, "whose": secret.subject, "source": secret.event})
        return (
            f"this would tell others what {secret.speaker} told you in confidence (event {secret.event}): leave it out, or tell it to "
            f"nobody but {secret.speaker}, where nobody else can hear"
        )

    async def _together(self, text: str, audience: Audience) -> Leak | None:
        """What a line carries only together with those before it, said bit by bit."""
        before = " ".join(said for heard_by, said in self._recent if heard_by == audience)[-RECENT_CHARS:]
        if not before or not (leak := await self.carried(f"{before} {text}", audience)):
            return None
        return None if await self.carried(before, audience) else leak

    async def carried(self, text: str, audience: Audience) -> Leak | None:
        """What a text would carry to an audience that must not hear it, and that is not known to all anyway."""
        for n, leak in enumerate(self._confidences.leaks(text, audience, people=self._people)):
            if leak.firm or n >= CHECKED or not await self._known(leak):
                return leak
        return None

    async def _known(self, leak: Leak) -> bool:
        """Whether the same was said or shown openly. What cannot be looked up is not known."""
        wanted = {leak.code} if leak.code else set(leak.words)
        terms = content_words(leak.code) if leak.code else sorted(leak.words)

        def holds(text: str, *, guessing: bool) -> bool:
            if guessing and leak.code and len(odd_words(text)) > GUESSES:
                return False
            return wanted <= set(parts(text) if leak.code else content_words(text))

        try:
            for memory in await self._journal.search(terms, limit=16, reader=Reader(world=self.world)):
                if holds(memory.text, guessing=True):
                    return True
            for event in await self._journal.events(kinds=("observation",), limit=LOOKED_AT, newest=True):
                told = from_journal(event.data)
                if any(line.sensitivity != PUBLIC for line in self._ears.heard(told, self._me())) or told.kind == "whisper":
                    continue
                if holds(told.text[:20_000], guessing=bool(told.speaker and told.speaker.kind != "world")):
                    return True
        except StoreError:
            return False
        return False


def _words(value: object) -> Iterator[str]:
    """All texts in an argument, in their order: the pages of a book are words too."""
    open_ = [value]
    while open_:
        match open_.pop():
            case str(text):
                yield text
            case Mapping() as inner:
                open_ += [part for pair in reversed([*inner.items()]) for part in reversed(pair)]
            case list() | tuple() as inner:
                open_ += reversed(inner)
