"""A strict local stand-in for the Messages API. Users of it import from `sim.messages_api`."""
