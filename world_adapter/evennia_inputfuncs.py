"""A drop-in for Evennia games: what an NPC's character sees, as data instead of prose. Optional, and needs nothing of ours.

Copy this file to `server/conf/npc_inputfuncs.py` of the game, add

    INPUT_FUNC_MODULES += ["server.conf.npc_inputfuncs"]

to `server/conf/settings.py`, and `evennia reload`. Any client may ask for it; it tells no more than `look` shows to the same character.
"""

from typing import Any

MOST = 200  # names in each list


def npc_look(session: Any, *_args: Any, **_kwargs: Any) -> None:
    """What the character that this session plays sees: room, exits, people and things."""
    looker = session.puppet
    room = looker.location if looker else None
    if room is None:
        session.msg(npc_look={"room": None})
        return

    def names(content_type: str) -> list[str]:
        found = [each for each in room.contents_get(content_type=content_type) if each is not looker]
        return [each.get_display_name(looker) for each in room.filter_visible(found, looker)][:MOST]

    session.msg(
        npc_look={
            "room": room.get_display_name(looker),
            "exits": names("exit"),
            "people": names("character"),
            "things": names("object"),
        }
    )
