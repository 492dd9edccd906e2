"""What looking for actions saves an NPC in a world that offers hundreds: the world, its mind, the measurement."""

#: Share of the errands that must be done by each search.
BOUND = 0.96
#: What an errand may cost by a search at most, as a share of its cost where what has room is shown; and the widest window this holds for.
COST_BOUND, NARROW = 0.6, 32_000
