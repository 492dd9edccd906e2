"""`npc eval`: run the cases, hold them against the baseline, and make new ones from what really happened.

Invariant: exit status 0 only if every case held and nothing became worse than the baseline allows; with `--json` one object and nothing
else on standard output.
"""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import structlog
import typer
from rich.console import Console

if TYPE_CHECKING:
    from sim.evals.baseline import Baseline
    from sim.evals.case import Case
    from sim.evals.running import Endpoint, Parts
    from sim.evals.suite import Outcome

#: Columns where there is no terminal.
WIDTH = 140

app = typer.Typer(invoke_without_command=True, rich_markup_mode="rich")


@app.callback()
def evaluate(
    context: typer.Context,
    case: Annotated[list[str] | None, typer.Option(help="Only the case of this name; may be given more than once.")] = None,
    cases: Annotated[Path | None, typer.Option(help="A folder of your own cases, instead of those that ship with the product.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
    baseline: Annotated[Path | None, typer.Option(help="What it came to before; for the shipped cases there is one.")] = None,
    update_baseline: Annotated[
        bool, typer.Option("--update-baseline", help="Write what it comes to now as the baseline, whatever it is.")
    ] = False,
    tolerance: Annotated[
        float | None, typer.Option(min=0, max=10, help="How much more steps, turns and dollars may be; 0.1 is a tenth, the default.")
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, max=50, help="Tries of each case; pass^k is told for up to so many.")] = 1,
    base_url: Annotated[str | None, typer.Option(help="A real endpoint of the Messages API to think with.")] = None,
    model: Annotated[str | None, typer.Option(help="The real model's id; its key comes from ANTHROPIC_API_KEY or its _FILE.")] = None,
    judge_model: Annotated[str | None, typer.Option(help="A real model to judge style with, at --judge-base-url.")] = None,
    judge_base_url: Annotated[str | None, typer.Option(help="Where that model is.")] = None,
    rubrics: Annotated[Path | None, typer.Option(help="Your own rubrics and labelled lines.")] = None,
    plant: Annotated[
        str | None, typer.Option(help="Break the product on purpose, to see that the cases notice, for example forgotten-rule.")
    ] = None,
) -> None:
    """Run small lives with a known end, and say what became worse than the baseline; `from-log` makes a case of a logged session.

    By default each case's own stand-in mind thinks: no key, no network. Exit status 0 only if all held and nothing became worse.

    Example: npc eval --case gate-without-seal
    Example: npc eval --cases ./cases --model claude-haiku-5-5 --repeat 3 --baseline real.json
    """
    if context.invoked_subcommand is not None:
        return
    from sim.evals import baseline as baselines  # noqa: PLC0415 (they need the runtime, which other commands do not wait for)
    from sim.evals import report  # noqa: PLC0415 (as above)
    from sim.evals.case import load_all, shipped  # noqa: PLC0415 (as above)

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    endpoint = _endpoint(base_url, model)
    chosen = _chosen(load_all(cases or shipped()), case or [])
    path = baseline or (baselines.shipped() if cases is None and endpoint is None else None)
    if update_baseline and path is None:
        text = "your own cases, and a real model, need a file of their own: --baseline FILE"
        raise typer.BadParameter(text, param_hint="--update-baseline")
    before = _before(path, needed=not update_baseline, model=model or "stand-in")
    console = Console(stderr=as_json) if Console().is_terminal else Console(stderr=as_json, width=WIDTH)
    parts = _planted(plant)
    outcome = asyncio.run(_run(chosen, console, repeat, endpoint, judge_model, judge_base_url, rubrics, parts))
    limit = baselines.TOLERANCE if tolerance is None else tolerance
    found = baselines.compare(before, outcome, tolerance=limit, whole=not case) if before and not update_baseline else None
    if update_baseline and path is not None:
        baselines.store(path, outcome, kept=before.cases if before and case else None)
    if as_json:
        typer.echo(json.dumps(report.as_json(outcome, found), ensure_ascii=False))
    else:
        console.print(report.table(outcome), "", report.summary(outcome), sep="\n")
        if found is not None:
            console.print("", report.changes(found, tolerance=limit), sep="\n")
        if update_baseline:
            console.print(f"The baseline is now in {path}.", markup=False, highlight=False, soft_wrap=True)
    known = {name for name, old in before.cases.items() if not old["passed"]} if before else set()
    failed = any(not r.passed and r.name not in known for r in outcome.results)
    worse = any(change.worse for change in found or ())
    raise typer.Exit(1 if worse or (failed and not update_baseline) else 0)


def _endpoint(base_url: str | None, model: str | None) -> Endpoint | None:
    if base_url is None and model is None:
        return None
    from npc.living import secret  # noqa: PLC0415 (as above)
    from npc.persona import DEFAULT_MODEL  # noqa: PLC0415 (as above)
    from sim.evals.running import Endpoint  # noqa: PLC0415 (as above)

    return Endpoint(base_url=base_url, key=secret("ANTHROPIC_API_KEY"), model=model or DEFAULT_MODEL)


def _planted(name: str | None) -> Parts | None:
    if name is None:
        return None
    from sim.evals.plants import PLANTS  # noqa: PLC0415 (as above)

    if name not in PLANTS:
        raise typer.BadParameter(f"there is no plant {name!r}; there are {', '.join(PLANTS)}", param_hint="--plant")
    return PLANTS[name]


def _chosen(cases: list[Case], names: list[str]) -> list[Case]:
    if unknown := [name for name in names if name not in {case.name for case in cases}]:
        known = ", ".join(case.name for case in cases)
        raise typer.BadParameter(f"there is no case {unknown[0]!r}; there are {known}", param_hint="--case")
    return [case for case in cases if not names or case.name in names]


def _before(path: Path | None, *, needed: bool, model: str) -> Baseline | None:
    from sim.evals import baseline as baselines  # noqa: PLC0415 (as above)

    if path is None or not (needed or path.exists()):
        return None
    found = baselines.load(path)
    if needed and found.model != model:
        raise typer.BadParameter(f"{path} is of {found.model}, and this run is of {model}: figures of two models say nothing of each other",
                                 param_hint="--baseline")  # fmt: skip
    return found if found.model == model else None


async def _run(
    chosen: list[Case], console: Console, repeat: int, endpoint: Endpoint | None, judge_model: str | None, judge_base_url: str | None,
    rubrics: Path | None, parts: Parts | None,
) -> Outcome:  # fmt: skip
    from npc.living import secret  # noqa: PLC0415 (as above)
    from sim.evals import judge as judges  # noqa: PLC0415 (as above)
    from sim.evals.suite import run  # noqa: PLC0415 (as above)

    if judge_base_url is not None and judge_model is None:
        raise typer.BadParameter("name the judge's model too: --judge-model ID", param_hint="--judge-base-url")
    key = secret("ANTHROPIC_API_KEY") if judge_model else None
    judge = judges.Judge(judges.load(rubrics or judges.shipped()), model=judge_model, base_url=judge_base_url, key=key)
    with console.status("The cases begin ...") as status:

        def watch(name: str, number: int, total: int) -> None:
            status.update(f"{number + 1} of {total}: {name}")

        async with judge:
            return await run(chosen, repeat=repeat, endpoint=endpoint, parts=parts, judge=judge, watch=watch)


@app.command("from-log")
def from_log(
    out: Annotated[Path, typer.Option(help="The file of the new case; its name is the case's.")],
    home: Annotated[Path | None, typer.Option(help="The NPC's home folder.")] = None,
    turns: Annotated[str, typer.Option(help="Which turns, such as 12-18 or 12; all of them if left out.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Make a case of what an NPC has lived: the world tells it again, the model's answers are given again, and what happened is expected.

    The case is run once before it is written; what does not come true again is left out, and named.

    Example: npc eval from-log --home ./warden --turns 12-18 --out cases/the-toll.toml
    """
    import re  # noqa: PLC0415 (as above)

    from npc.home import find_home  # noqa: PLC0415 (as above)
    from sim.evals import fromlog  # noqa: PLC0415 (as above)
    from sim.evals.case import NAME  # noqa: PLC0415 (as above)

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    asked = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", turns.strip() or "1-999999999")
    if asked is None:
        raise typer.BadParameter(f"{turns!r} is no range of turns: write 12-18, or 12 for one", param_hint="--turns")
    if not NAME.fullmatch(out.stem):
        raise typer.BadParameter(f"a case is named by small letters, digits, _ and -, not {out.stem!r}", param_hint="--out")
    made = asyncio.run(fromlog.make(find_home(home), first=int(asked[1]), last=int(asked[2] or asked[1]), name=out.stem))
    fromlog.store(out, made)
    if as_json:
        typer.echo(json.dumps({"out": str(out), "left_out": made.left_out, "people": made.case.marked.people}, ensure_ascii=False))
        return
    new, marked = made.case, made.case.marked
    lines = [f"{out} holds {marked.source} of {new.npc}: {len(new.event)} events, {len(new.mind[0].answer)} answers of the model."]
    lines += [f"Left out, since it did not come true again: {line}" for line in made.left_out]
    if marked.people:
        confided = f", {len(marked.confidences)} lines of them told in confidence" if marked.confidences else ""
        lines.append(f"It holds the words of {', '.join(marked.people)}{confided}: look through it before you share it.")
    lines.append(f"It held when it was run just now. Run it with: npc eval --cases {out.parent} --case {out.stem}")
    console = Console(highlight=False)
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)
