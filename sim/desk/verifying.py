"""The verifier: whether a draft agrees with the books.

Invariant: pure and deterministic, over the draft's own bytes, the mail that it answers and the books; whatever is unclear means no.
Nobody's words are heard: not the draft's about itself, not the mail's, not the model's.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from email import policy
from email.parser import BytesParser

from sim.desk.mail import Mail

_INVOICE = re.compile(r"\binvoices?\W{1,3}(?:no\W{0,2}|number\W)?(\d{1,12})", re.IGNORECASE)
_AMOUNT = re.compile(r"\b\d[\d,]*\.\d\d\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a draft may count as verified, and one sentence why."""

    verified: bool
    why: str


def digest(draft: bytes) -> str:
    """What a draft is known by once it is verified: another byte is another draft."""
    return hashlib.sha256(draft).hexdigest()[:16]


def verify(draft: bytes, *, answers: Mail | None, books: str) -> Verdict:
    """Check a draft. `answers` is the mail that it answers, `books` the text of the books: a CSV of invoice and amount."""
    message = BytesParser(policy=policy.default).parsebytes(draft)
    text = str(message.get_content())
    if answers is None or not answers.address or str(message["To"]) != answers.address:
        return Verdict(verified=False, why="it does not go to the sender of the mail that it answers")
    amounts = _amounts(books)
    named = dict.fromkeys(_INVOICE.findall(text))
    for invoice in named:
        if len(amounts.get(invoice, ())) != 1:
            return Verdict(verified=False, why=f"invoice {invoice} stands {len(amounts.get(invoice, ()))} times in the books, not once")
    allowed = {amounts[invoice][0] for invoice in named}
    if wrong := [amount for amount in _AMOUNT.findall(text) if amount.replace(",", "") not in allowed]:
        return Verdict(verified=False, why=f"the amount {wrong[0]} is not that of an invoice which it names")
    return Verdict(verified=True, why=f"to {answers.address}, {len(named)} invoices as in the books")


def _amounts(books: str) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in csv.reader(io.StringIO(books)):
        if len(row) >= 2:
            found.setdefault(row[0].strip(), []).append(row[1].strip().replace(",", ""))
    return found
