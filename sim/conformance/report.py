"""What an examination found, for people and for programs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sim.conformance.examination import Outcome
from sim.conformance.rules import Finding, Verdict

_MARKS = {Verdict.HOLDS: ("holds", "green"), Verdict.BROKEN: ("BROKEN", "bold red"), Verdict.UNSEEN: ("not seen", "yellow")}
_SECTIONS = {
    1: "Transport", 2: "A connection", 3: "What the world says", 4: "Observations", 5: "Actions", 6: "Nothing lost, nothing twice",
    7: "Heartbeat", 8: "Closing",
}  # fmt: skip


def as_json(outcome: Outcome) -> dict[str, Any]:
    """One object; its keys are always the same."""
    return {
        "url": outcome.plan.url,
        "npc": outcome.plan.npc,
        "world": outcome.world,
        "subprotocol": outcome.subprotocol,
        "held": outcome.held,
        "unreached": outcome.unreached,
        "actions_tried": list(outcome.tried),
        "unknown_ops": list(outcome.unknown_ops),
        "rules": [
            {"id": f.rule.id, "section": f.rule.section, "says": f.rule.says, "verdict": f.verdict.value, "why": f.why}
            for f in outcome.findings
        ],
    }  # fmt: skip


def rendered(outcome: Outcome) -> RenderableType:
    """A table of all rules by the sections of SPEC.md, and one line that sums it up."""
    if outcome.unreached:
        return Text.assemble(("Nothing could be checked: ", "bold red"), outcome.unreached, ".")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(ratio=3)
    table.add_column(ratio=2)
    for section, title in _SECTIONS.items():
        found = [f for f in outcome.findings if f.rule.section == section]
        if found:
            table.add_row("", Text(f"{section}. {title}", style="bold"), "")
            for finding in found:
                table.add_row(*_row(finding))
    lines: list[RenderableType] = [table, "", _sum(outcome.findings)]
    if outcome.unknown_ops:
        lines.append(Text(f"It also said what version 1 does not know, and readers ignore: {', '.join(outcome.unknown_ops)}.", style="dim"))
    return Group(*lines)


def _row(finding: Finding) -> tuple[Text, Text, Text]:
    word, style = _MARKS[finding.verdict]
    return Text(word, style=style), Text(finding.rule.says), Text(finding.why, style=style if finding.verdict is Verdict.BROKEN else "dim")


def _sum(findings: Sequence[Finding]) -> Text:
    held, broken, unseen = (sum(f.verdict is verdict for f in findings) for verdict in Verdict)
    said = Text.assemble((f"{held} of {len(findings)} rules hold", "green"))
    if broken:
        said.append(f", {broken} {'is' if broken == 1 else 'are'} broken", style="bold red")
    if unseen:
        said.append(f", {unseen} could not be seen", style="yellow")
    return said.append(".")
