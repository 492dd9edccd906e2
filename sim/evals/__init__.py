"""`npc eval`: small lives with a known end, led through the whole product, that tell at once what a change made worse."""
