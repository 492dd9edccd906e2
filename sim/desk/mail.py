"""Mail in a folder, read with the standard library.

Invariant: a file is never believed and never raises: what is no mail, too long or in no known charset is shown as far as it can be read,
with that said.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from email.utils import parseaddr
from pathlib import Path

from diaries.text import clean_line, clean_text

#: The largest file that is read whole, in bytes.
LARGEST = 4_000_000
KEPT = 64
_HTML = re.compile(r"<[^>]*>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """One mail: `name` is its file's without the ending, `sender` as written, `address` of it ("" if there is none), `text` the body."""

    name: str
    sender: str
    address: str
    subject: str
    date: str
    message_id: str
    text: str

    def shown(self) -> str:
        """As the clerk reads it."""
        return f"mail {self.name}\nfrom: {self.sender}\nsubject: {self.subject}\ndate: {self.date}\n\n{self.text}"


class Mailbox:
    """The `.eml` files of a folder, which come whole, as a maildir's do."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, Mail] = {}  # the newest `KEPT` that were read

    def paths(self) -> dict[str, Path]:
        """Files by the mail's name, in order; a link is no mail."""
        found = sorted(p for p in self._folder.glob("*.eml") if p.is_file() and not p.is_symlink())
        return {clean_line(path.stem, 64): path for path in found}

    def mail(self, name: str) -> Mail | None:
        """One of them."""
        if name in self._read:
            return self._read[name]
        path = self.paths().get(name)
        if path is None:
            return None
        try:
            with path.open("rb") as file:
                mail = parsed(name, file.read(LARGEST + 1))
        except OSError:
            return None
        self._read[name] = mail
        while len(self._read) > KEPT:
            del self._read[next(iter(self._read))]
        return mail

    def search(self, words: str, *, limit: int) -> list[Mail]:
        """Mails that hold all the words, the newest first."""
        wanted = words.casefold().split()
        found = []
        for name in reversed(self.paths()):
            mail = self.mail(name)
            if mail and wanted and all(word in mail.shown().casefold() for word in wanted):
                found.append(mail)
            if len(found) >= limit:
                break
        return found


def parsed(name: str, data: bytes) -> Mail:
    """The mail in a file's bytes."""
    cut = f"\n[cut: the file is larger than {LARGEST:,} bytes]" if len(data) > LARGEST else ""
    try:
        message = BytesParser(policy=policy.default).parsebytes(data[:LARGEST])
        assert isinstance(message, EmailMessage)  # noqa: S101 (what this policy makes; typeshed does not say so)
        header = {key: clean_line(str(message.get(key, "")), 300) for key in ("from", "subject", "date", "message-id")}
        body = message.get_body(("plain", "html"))
        text = str(body.get_content()) if body is not None else "[no text]"
        if body is not None and body.get_content_type() == "text/html":
            text = _HTML.sub(" ", text)
    except Exception as error:  # noqa: BLE001 (the parser raises a dozen kinds of errors at mail that is broken on purpose)
        raw = clean_text(data[:2_000].decode(errors="replace"), 2_000)
        return Mail(
            name=name, sender="", address="", subject="", date="", message_id="", text=f"[no readable mail: {type(error).__name__}]\n{raw}"
        )
    return Mail(
        name=name, sender=header["from"], address=parseaddr(header["from"])[1], subject=header["subject"], date=header["date"],
        message_id=header["message-id"], text=clean_text(text, LARGEST) + cut,
    )  # fmt: skip
