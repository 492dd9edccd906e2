"""An NPC's routine: the log every half hour, the diary when it is due, the operator's answers as soon as they are written.

Invariant: all of it happens beside the mind, and ends with the life.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from npc.approvals.approvals import Approvals
from npc.attachment import Attachment
from npc.checkpoint import Standing, checkpoint
from npc.chronicler import Chronicler
from npc.duties import Duties, Duty, Sleep
from npc.home import Home
from npc.state import State
from runtime.agent import Agent
from runtime.store.journal import Journal

#: Seconds between two checkpoints in the log, two looks at the diary and two looks at what the operator answered.
LOG_S = 1_800.0
DIARY_S = 5.0
ANSWERS_S = 2.0
#: The same for acts that wait for the operator.
APPROVALS_S = 1.0


class Routine:
    """Of one NPC. `answers` makes news of what the operator answered in the state, and says whether there was any."""

    def __init__(
        self, *, home: Home, journal: Journal, agent: Agent, attachment: Attachment, chronicler: Chronicler, page: Callable[[str], None],
        answers: Callable[[State], bool], approvals: Approvals, sleep: Sleep = asyncio.sleep,
    ) -> None:  # fmt: skip
        self._home, self._journal, self._agent, self._attachment, self._chronicler = home, journal, agent, attachment, chronicler
        self._page, self._answers = page, answers
        self._duties = Duties(
            Duty(name="the checkpoint in the log", every_s=LOG_S, work=lambda: self.checkpoint("half hour")),
            Duty(name="the diary", every_s=DIARY_S, work=chronicler.look),
            Duty(name="looking for the operator's answers", every_s=ANSWERS_S, work=self._look_for_answers),
            Duty(name="looking after acts that wait for the operator", every_s=APPROVALS_S, work=approvals.look),
            sleep=sleep,
            alarm=page,
        )

    async def run(self) -> None:
        """Until it is cancelled."""
        await self._duties.run()

    async def checkpoint(self, why: str) -> None:
        """Write down in the log where the NPC stands."""
        session, here = self._agent.session, self._attachment
        standing = Standing(
            place=here.place,
            world_time=here.world_time,
            turn=session.turn,
            event=self._journal.last_id,
            dollars=session.dollars,
            promises=[finding.text for finding in session.record.findings.promises],
            unverified=[finding.text for finding in session.record.findings.unverified],
        )
        state = await asyncio.to_thread(self._home.state)
        if alarm := await asyncio.to_thread(self._home.append_log, checkpoint(why, state, standing)):
            self._page(alarm)

    async def _look_for_answers(self) -> None:
        if self._answers(await asyncio.to_thread(self._home.state)):
            self._agent.stir(urgent=True, why="operator")
