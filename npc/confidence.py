"""What was told in confidence, and whether words that are about to leave would carry it to somebody else.

Invariants: pure and bounded; a line that was whispered reaches only whom it came from, where nobody else can hear; one that was confided
aloud reaches only those who are answered, its teller among them. Carried is a word such as a password, a name or a number out of such a
line, spelled as it is, letter by letter, backwards or encoded, or a run of its words. A word that its listener has said before, or that is
known anyway, carries nothing; a line that tries many such words at once says none of them.
"""

from __future__ import annotations

import base64
import codecs
import contextlib
import re
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

from npc.claims import latin
from runtime.store.memories import CONFIDED, content_words

#: Confidences that are kept in mind; older ones are in the journal and no longer in any window.
LINES = 4_000
#: Words in a row, and words of one sentence, that carry a line; a shorter line is carried as a whole, if it has `_LEAST` words.
_RUN, _LEAST = 4, 3
_SHARE = 0.75
#: A line with more odd words than this guesses.
GUESSES = 4
LONGEST = 20_000
#: Words of a text that are looked at for what they may encode.
_DECODED = 50

_SILENCE = re.compile(
    latin(
        r"\b(?:secret(?:ly)?|confidential(?:ly)?|between (?:us|you and me)|tell (?:no ?(?:one|body)|not a soul)|for your ears"
        r"|off the record|(?:do not|don't|never|not) (?:tell|repeat|mention|share|reveal)"
        r"|keep (?:it|this|that) (?:quiet|to yourself|safe|secret|between)"
        r"|password|passphrase|passcode|pin code|in confidence|private(?:ly)?)\b"
        r"|\b(?:geheim\w*|unter uns|vertraulich|sage? (?:es )?niemand\w*|erzähl (?:es |das )?niemand\w*|passwort|losung(?:swort)?"
        r"|kennwort)\b"
        r"|\b(?:entre nous|confidentiel\w*|ne (?:le )?(?:dis|répète|raconte)|mot de passe|en confidence)\b"
        r"|\b(?:secreto|confidencial|entre nosotros|no (?:se )?lo (?:digas|cuentes)|contraseña|no le digas)\b"
        r"|\b(?:segredo|entre nós|não (?:contes?|digas?|diga)|palavra-passe|senha)\b"
        r"|(?:секрет|тайна|между нами|никому не (?:говори|рассказывай)|пароль)"
        r"|秘密|保密|别告诉|別告訴|不要告诉|不要告訴|密码|密碼|口令|暗号|内緒|誰にも言わ|パスワード|合言葉|비밀|암호"
    )
)
# What follows such a word is one to keep: always after the first sort, after the second if it is no common word.
_TO_ENTER = (
    r"(?:pass ?(?:word|phrase|code)|(?:code|secret|magic) ?word|secret code|combination|\bpin\b|losung(?:swort)?|passwort|kennwort"
    r"|mot de passe|contrasena|palavra-passe|senha|парол\w*|密码|密碼|口令|暗号|パスワード|合言葉|암호)"
)
_NAMED = r"(?:\bcode|\bsecret|called|named|name|heisst|s'appelle|se llama|chama-se|зовут)"
_THEN = r"(?:\s+(?:is|are|was|for|of|it|the|to|my|our|ist|est|es|e|lautet|это|now|still)\b|\s+[\w']+(?= (?:is|ist|est|es)\b)){0,5}"
_AND = r"\s*[:=-]?\s*[はがе是为為]?\s*[\"'“”«]*([^\W_][\w-]*)"
_AFTER_PASSWORD, _AFTER_NAMED = re.compile(_TO_ENTER + _THEN + _AND), re.compile(_NAMED + _THEN + _AND)
_ASKS_PASSWORD = re.compile(_TO_ENTER)
_LETTERS = re.compile(r"[^\W\d_]{5,}")
_WORD = re.compile(r"[^\W_](?:[\w'’-]*[^\W_])?")
_PARTS = re.compile(r"[^\W_]+")
_START = re.compile(r"[.!?\n:;\"“”«»(]\s*$")
_ENCODED = re.compile(r"[A-Za-z0-9+/=_-]{6,400}")
_SENTENCE = re.compile(r"[.!?;\n]+")
_NUMERALS = """
    zero null cero ноль | one eins un uno um один | two zwei deux dos dois два | three drei trois tres три
    | four vier quatre cuatro quatro четыре | five fünf cinq cinco пять | six sechs seis шесть | seven sieben sept siete sete семь
    | eight acht huit ocho oito восемь | nine neun neuf nueve nove девять
"""
_DIGITS = {word: str(digit) for digit, names in enumerate(latin(_NUMERALS).split("|")) for word in names.split()}
#: Words that stand with a capital letter, or behind such a cue, and give nothing away.
_CALENDAR = frozenset(re.findall(r"\w+", """
    monday tuesday wednesday thursday friday saturday sunday january february march april may june july august september october november
    december montag dienstag mittwoch donnerstag freitag samstag sonntag this that what when where which your have there then they with not
    will would could should please thank thanks hello good the and you mine his her their out here i me my we us it is are was
"""))  # fmt: skip
#: A word of so many letters is known where it runs on with its neighbours.
_RUN_ON = 6
#: So many words are an answer and no talk of something else.
_ANSWER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """A line that was told in confidence: whose it is, who told it by name, the words, CONFIDED or WHISPERED, and the event."""

    subject: str
    speaker: str
    text: str
    sensitivity: int
    event: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Audience:
    """Who hears: `subjects` are those who are spoken to; `closed`: and nobody else can."""

    subjects: frozenset[str]
    closed: bool

    def may_hear(self, secret: Secret) -> bool:
        """Whether a secret may be told to it."""
        return secret.subject in self.subjects and (self.closed or secret.sensitivity == CONFIDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leak:
    """What words would carry: the secret, and of it one odd word, or plain ones. `firm`: that others use the word does not matter."""

    secret: Secret
    code: str = ""
    words: frozenset[str] = frozenset()
    firm: bool = False


@dataclass(slots=True)
class _Kept:
    secret: Secret
    codes: frozenset[str]
    passwords: frozenset[str]
    words: tuple[str, ...]
    terms: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.terms = frozenset(self.words)


class Confidences:
    """Of one NPC. `known`: texts that are no secret, such as its persona; `common`: whether a plain word is one that everybody uses."""

    def __init__(self, *, known: Iterable[str] = (), common: Callable[[str], bool] = lambda _: False, limit: int = LINES) -> None:
        self._limit, self._common = limit, common
        self._kept: OrderedDict[int, _Kept] = OrderedDict()
        self._next = 0
        self._by_code: defaultdict[str, set[int]] = defaultdict(set)
        self._by_term: defaultdict[str, set[int]] = defaultdict(set)
        self._said: set[tuple[str, str]] = set()
        text = "\n".join(known)
        self._known = frozenset(parts(text))
        self._known_terms = frozenset(content_words(text))

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, secret: Secret) -> None:
        """One more line to keep; the oldest goes where there are too many."""
        if (secret.subject, secret.text) in self._said:
            return
        words = tuple(content_words(secret.text))
        passwords = _behind(_AFTER_PASSWORD, secret.text)
        names = frozenset(word for word in _behind(_AFTER_NAMED, secret.text) if not self._common(word))
        odd = odd_words(secret.text)
        # Half of such a word is half of the secret.
        halves = {half for word in odd for half in _LETTERS.findall(word) if half != word and not self._common(half)}
        kept = _Kept(secret, (odd | halves | names) - self._known, passwords, words)
        if not kept.codes and not passwords and len(kept.terms) < _LEAST:
            return
        number, self._next = self._next, self._next + 1
        self._kept[number] = kept
        self._said.add((secret.subject, secret.text))
        for code in kept.codes | passwords:
            self._by_code[code].add(number)
        for term in kept.terms:
            self._by_term[term].add(number)
        if len(self._kept) > self._limit:
            self._drop()

    def _drop(self) -> None:
        number, kept = self._kept.popitem(last=False)
        self._said.discard((kept.secret.subject, kept.secret.text))
        for index, names in ((self._by_code, kept.codes | kept.passwords), (self._by_term, kept.terms)):
            for name in names:
                index[name].discard(number)
                if not index[name]:
                    del index[name]

    @property
    def any(self) -> bool:
        """Whether anything is kept."""
        return bool(self._kept)

    def leaks(self, text: str, audience: Audience, *, people: Iterable[str] = ()) -> Iterator[Leak]:
        """What `text` would carry to those who must not hear it. `people`: names that everybody knows."""
        if not self._kept:
            return
        text = text[:LONGEST]
        yield from self._codes(text, audience, frozenset(people))
        yield from self._runs(text, audience)

    def _codes(self, text: str, audience: Audience, people: frozenset[str]) -> Iterator[Leak]:
        found = set().union(*(_Form(one).among(self._by_code) for one in (text, *_decoded(text))))
        answer = sum(len(word) > 1 for word in parts(text)) <= _ANSWER or bool(_ASKS_PASSWORD.search(latin(text)))
        for code in sorted(found):
            secrets = [self._kept[number] for number in sorted(self._by_code[code])]
            if any(audience.may_hear(kept.secret) and len(kept.codes) <= GUESSES for kept in secrets):
                continue
            if answer and (firm := next((kept for kept in secrets if code in kept.passwords), None)):
                yield Leak(secret=firm.secret, code=code, firm=True)
            elif code not in people and (odd := next((kept for kept in secrets if code in kept.codes), None)):
                yield Leak(secret=odd.secret, code=code)

    def _runs(self, text: str, audience: Audience) -> Iterator[Leak]:
        words = content_words(text)
        runs = {size: {tuple(words[at : at + size]) for at in range(len(words) - size + 1)} for size in (_LEAST, _RUN)}
        sentences = [s for one in _SENTENCE.split(text) if len(s := frozenset(content_words(one))) >= _RUN]
        if len(words) <= 40:
            sentences.append(frozenset(words))
        shared = Counter(number for term in set(words) for number in self._by_term.get(term, ()))
        for number, terms in shared.items():
            kept = self._kept[number]
            if terms < _LEAST or audience.may_hear(kept.secret):
                continue
            found = self._carried(kept, runs, sentences)
            if found and not found <= self._known_terms and not self._heard_anyway(found, audience):
                yield Leak(secret=kept.secret, words=found)

    @staticmethod
    def _carried(kept: _Kept, runs: dict[int, set[tuple[str, ...]]], sentences: list[frozenset[str]]) -> frozenset[str]:
        size = _RUN if len(kept.words) >= _RUN else _LEAST
        for at in range(len(kept.words) - size + 1):
            if (run := kept.words[at : at + size]) in runs[size]:
                return frozenset(run)
        for sentence in sentences:
            both = kept.terms & sentence
            if len(both) >= _RUN and len(both) >= _SHARE * len(kept.terms):
                return both
        return frozenset()

    def _heard_anyway(self, words: frozenset[str], audience: Audience) -> bool:
        """Whether one who hears has told the same."""
        term = next(iter(words))
        several = (self._kept[number] for number in self._by_term.get(term, ()))
        return any(words <= kept.terms and audience.may_hear(kept.secret) for kept in several)


class _Form:
    """A text as it can be searched for a word, however that is spelled."""

    def __init__(self, text: str) -> None:
        words = parts(text)
        self._words = frozenset(words)
        self._all = "".join(words)
        letters = "".join(word if len(word) == 1 else " " for word in words)
        figures = "".join(_DIGITS.get(word) or (word if word.isdigit() else " ") for word in words)
        self._spelled = [part for part in f"{letters} {figures}".split() if len(part) >= 3]

    def among(self, codes: Collection[str]) -> set[str]:
        """Which of these words are in it."""
        found = {word for one in self._words for word in (one, one[::-1]) if word in codes}
        run_on = f"{self._all} {self._all[::-1]}"
        spelled = " ".join(f"{part} {part[::-1]}" for part in self._spelled)
        found.update([code for code in codes if len(code) >= _RUN_ON and code in run_on])
        if spelled:
            found.update([code for code in codes if len(code) >= _LEAST and code in spelled])
        return found


def wants_silence(text: str) -> bool:
    """Whether a line asks to be kept, or holds what people keep: a password, a secret."""
    return bool(_SILENCE.search(latin(text)))


def odd_words(text: str) -> frozenset[str]:
    """The words of a line that would give it away by themselves, numbers and names, folded to letters and digits."""
    found: set[str] = set()
    loud = text.upper() == text
    for match in _WORD.finditer(text[:LONGEST]):
        plain = "".join(parts(match.group()))
        digits = sum(c.isdigit() for c in plain)
        if digits:
            odd = len(plain) >= 4 or (digits < len(plain) and len(plain) >= 3)
        else:
            before = text[: match.start()].rstrip()
            odd = match.group()[0].isupper() and not loud and len(plain) >= 3 and bool(before) and not _START.search(before)
        if odd:
            found.add(plain)
    return frozenset(found) - _CALENDAR


def _behind(cue: re.Pattern[str], text: str) -> frozenset[str]:
    """The words behind a cue."""
    return frozenset(word for match in cue.finditer(latin(text)) if len(word := "".join(parts(match[1]))) >= 2) - _CALENDAR


def parts(text: str) -> list[str]:
    """The letters and digits of a text in one spelling, word for word."""
    return _PARTS.findall(latin(text))


def _decoded(text: str) -> Iterator[str]:
    """The same text if it is one of the usual ciphers, and what base 64 or hexadecimal words in it say."""
    yield codecs.encode(text, "rot13")
    for match in list(_ENCODED.finditer(text))[:_DECODED]:
        word = match.group()
        with contextlib.suppress(ValueError):  # which is what is wrong with most words
            yield base64.b64decode(word + "=" * (-len(word) % 4)).decode("utf-8")
        with contextlib.suppress(ValueError):
            yield bytes.fromhex(word).decode("utf-8")
