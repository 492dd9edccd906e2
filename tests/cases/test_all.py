"""The forty cases are all here, each once, each with its source."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

FAMILIES = {"A": "01 02 04 08 09", "B": "02 03 09 12 13", "C": "01 04 08 12 14", "D": "01 03 05 09", "E": "02 04 05 10 15",
            "F": "01 03 08", "G": "01 02 07 09 10", "H": "01 04 08 14 15", "I": "01 06 08"}  # fmt: skip


def test_each_case_has_one_test_that_names_its_source() -> None:
    """Forty of forty."""
    cases = {family + number for family, numbers in FAMILIES.items() for number in numbers.split()}
    named = Counter[str]()
    for path in Path(__file__).parent.glob("test_?_*.py"):
        named.update(re.findall(r'"""([A-I]\d\d), https://github\.com/\S+\s', path.read_text(encoding="utf-8")))
    assert len(cases) == 40
    assert set(named) == cases
    assert set(named.values()) == {1}
