"""What yielding saves an NPC that walks: the road, the hour, the measurement."""

from collections.abc import Mapping

#: Ambient observations beside the road: one in so many seconds. The simulator's own village tells one in 2 to 5 by day, 6 to 14 by night.
DENSITIES: Mapping[str, float] = {"quiet": 60.0, "ordinary": 15.0, "busy": 4.0}
ORDINARY = "ordinary"
#: The share of model calls that yielding must save on that one.
BOUND = 0.60
