// A bot's surroundings in words and as data.
//
// Invariant: read only; never longer than a page, however crowded the place.

import { bearing, coordinates, distance, plainPosition } from './movements.js';

const SIGHT = 32; // blocks
const SHOWN = 16; // creatures
const THINGS = new Set(['orb', 'projectile', 'object', 'other', 'global']);

/** What moves by itself: players and mobs, not things; and not what has no name yet, for then it never appeared and its place is made up. */
export function isCreature(entity) {
  return Boolean(entity?.position && (entity.username ?? entity.name)) && !THINGS.has(entity.type);
}

export function label(entity) {
  if (entity.username) return entity.username;
  return `a ${String(entity.displayName ?? entity.name ?? 'creature').toLowerCase()}`;
}

export function placeOf(bot) {
  return `${bot.game?.dimension ?? 'somewhere'} ${coordinates(bot.entity.position)}`;
}

/** Creatures in sight, the nearest first. */
export function creatures(bot, sight = SIGHT) {
  const me = bot.entity.position;
  return Object.values(bot.entities)
    .filter(entity => entity !== bot.entity && isCreature(entity) && distance(me, entity.position) <= sight)
    .sort((a, b) => distance(me, a.position) - distance(me, b.position));
}

export function describe(bot) {
  const me = bot.entity.position;
  const near = creatures(bot);
  const others = Object.keys(bot.players).filter(name => name !== bot.username).sort();
  const ground = bot.blockAt(me.offset(0, -0.2, 0))?.name;
  const ahead = bot.blockAtCursor?.(8);
  const text = [
    `You are at ${coordinates(me)} in the ${bot.game?.dimension ?? 'world'}${ground ? `, on ${ground}` : ''}.`,
    `Health ${Math.ceil(bot.health ?? 0)} of 20, food ${Math.round(bot.food ?? 0)} of 20.`,
    bot.time?.isDay === undefined ? '' : `It is ${bot.time.isDay ? 'day' : 'night'}${bot.isRaining ? ' and rains' : ''}.`,
    ahead ? `Before you is ${ahead.name} at ${coordinates(ahead.position)}.` : '',
    near.length === 0 ? 'Nobody is near.' : `Near: ${listed(near.map(each => `${label(each)} ${bearing(me, each.position)} at ${coordinates(each.position)}`), SHOWN)}.`,
    others.length === 0 ? 'No other player is in the game.' : `In the game: ${listed(others, 50)}.`,
  ].filter(Boolean).join(' ');
  return {
    text,
    data: {
      place: placeOf(bot),
      position: plainPosition(me),
      health: bot.health ?? 0,
      food: bot.food ?? 0,
      players: others.slice(0, 50),
      near: near.slice(0, SHOWN).map(each => ({ entity: each.id, name: each.username ?? each.name ?? '', position: plainPosition(each.position) })),
    },
  };
}

function listed(words, most) {
  return `${words.slice(0, most).join('; ')}${words.length > most ? `; and ${words.length - most} more` : ''}`;
}

export function belongings(bot) {
  const counts = new Map();
  for (const item of bot.inventory.items()) counts.set(item.name, (counts.get(item.name) ?? 0) + item.count);
  const list = [...counts].map(([name, count]) => ({ name, count }));
  const held = bot.heldItem?.name ?? null;
  const text = list.length === 0 ? 'You carry nothing.' : `You carry ${list.map(({ name, count }) => `${count} ${name}`).join(', ')}.`;
  return { text: held === null ? text : `${text} In your hand: ${held}.`, data: { items: list, held } };
}
