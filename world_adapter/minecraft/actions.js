// What an NPC can do in Minecraft: each action's offer, and its doing.
//
// Invariant: arguments are whatever a model made of the schema, so each is checked here; an action that ends well has seen that it did, or
// says in its text what it has not seen.

import { Vec3 } from 'vec3';

import { ActFailed, pause, unless } from './failure.js';
import { follow, halt, walk } from './journey.js';
import { bearing, coordinates, distance } from './movements.js';
import { belongings, creatures, describe, label } from './scene.js';
import { LINE_CHARS, lines, unsayable } from './talk.js';

const ECHO_MS = 3_000; // until a server has answered what was said
const REACH = 4.5; // blocks
const PACE = { burst: 5, everyMs: 1_000 }; // lines of chat; a server throws out who is faster

export const ACTIONS = new Map();

function offer(spec, run) {
  const { properties = {}, required = [], ...rest } = spec;
  const schema = { type: 'object', properties, required, additionalProperties: false };
  ACTIONS.set(spec.name, {
    spec: { effect: 'write', reach: 'contained', kind: 'instant', moves_body: false, ...rest, schema },
    run,
  });
}

const WHOLE = { type: 'integer', minimum: -30_000_000, maximum: 30_000_000 };
const PLACE = { type: 'number', minimum: -30_000_000, maximum: 30_000_000 };
const TEXT = { type: 'string', minLength: 1, maxLength: LINE_CHARS };
const WHO = { type: 'string', description: 'A name of a player, a sort of creature (the nearest is meant), or the number of an entity.' };

// ---------------------------------------------------------------- words

offer({
  name: 'say', description: 'Say something aloud in the chat; everyone on the server reads it.', reach: 'wide',
  properties: { text: TEXT }, required: ['text'],
}, async ({ bot, signal }, { text }) => {
  const wrong = unsayable(text);
  if (wrong !== null) throw new ActFailed('bad_args', wrong);
  const spoken = lines(text);
  const echoed = await spoke(bot, signal, spoken, line => bot.chat(line), told => told.own && told.kind === 'speech');
  return { text: echoed ? `You said: ${spoken.join(' ')}` : 'You spoke, but the server did not show it to you: others may not have read it.', data: { echoed } };
});

offer({
  name: 'whisper', description: 'Say something to one player only.',
  properties: { to: { type: 'string', description: "The player's name." }, text: TEXT }, required: ['to', 'text'],
}, async ({ bot, signal }, { to, text }) => {
  const wrong = unsayable(text);
  if (wrong !== null) throw new ActFailed('bad_args', wrong);
  const name = playerNamed(bot, to);
  const prefix = `/tell ${name} `;
  let refused = null;
  const spoken = lines(text, prefix.length);
  const mine = told => told.kind === 'whisper' && told.own;
  const echoed = await spoke(bot, signal, spoken, line => bot.chat(prefix + line), mine, words => { refused = words; });
  if (!echoed && refused !== null) throw new ActFailed('refused', `the server answered: ${refused.slice(0, 200)}`);
  return { text: echoed ? `You whispered to ${name}.` : `You whispered to ${name}, but the server did not confirm it.`, data: { to: name, echoed } };
});

/** Says lines and waits for the server to show them; `refusal` hears what the server says meanwhile by itself. */
async function spoke(bot, signal, spoken, send, mine, refusal = () => {}) {
  let missing = spoken.length;
  let seen;
  const all = new Promise(done => { seen = done; });
  const onHeard = told => {
    if (!mine(told)) return;
    missing -= 1;
    if (missing === 0) seen(true);
  };
  const onNotice = (line, position, message, sender) => {
    if (sender && Object.values(bot.players).some(player => player.uuid === sender)) return;
    if (position !== 'game_info' && !/^[<[*]/.test(line)) refusal(line);
  };
  bot.on('npc_heard', onHeard);
  bot.on('messagestr', onNotice);
  let timer;
  try {
    for (const line of spoken) {
      await paced(bot, signal);
      send(line);
    }
    return await unless(signal, Promise.race([all, new Promise(done => { timer = setTimeout(done, ECHO_MS, false); })]));
  } finally {
    clearTimeout(timer);
    bot.removeListener('npc_heard', onHeard);
    bot.removeListener('messagestr', onNotice);
  }
}

const paces = new WeakMap(); // bot: when the next line would be due at an even pace

async function paced(bot, signal) {
  const now = performance.now();
  const due = Math.max(paces.get(bot) ?? 0, now);
  const wait = due - now - (PACE.burst - 1) * PACE.everyMs;
  if (wait > 10_000) throw new ActFailed('too_fast', 'you speak faster than the server bears: wait a moment');
  paces.set(bot, due + PACE.everyMs);
  if (wait > 0) await pause(signal, wait);
}

// ---------------------------------------------------------------- senses

offer({
  name: 'look_around', description: 'See where you are, who and what is near, how you are.', effect: 'read', reversible: true,
}, async ({ bot }) => describe(bot));

offer({
  name: 'inventory', description: 'See what you carry.', effect: 'read', reversible: true,
}, async ({ bot }) => belongings(bot));

// ---------------------------------------------------------------- the body

offer({
  name: 'walk_to', kind: 'ongoing', moves_body: true, reversible: true,
  description: 'Walk to a place (x and z, y where the height matters) or to somebody (to). Takes time; nothing is dug or built on the way.',
  properties: {
    x: PLACE, y: PLACE, z: PLACE, to: WHO,
    within: { type: 'number', minimum: 0, maximum: 32, description: 'Blocks from it that are near enough; 1 if left out.' },
  },
}, async (context, args) => {
  const within = number(args.within, 'within', 0, 32, args.to === undefined ? 1 : 2);
  if (args.to === undefined) return walk(context, { ...place(args, { y: false }) }, within);
  const entity = entityNamed(context.bot, args.to);
  const { x, y, z } = entity.position;
  const arrived = await walk(context, { x, y, z }, within);
  const now = entity.isValid ? `, who is now ${bearing(context.bot.entity.position, entity.position)}` : '';
  return { ...arrived, text: `${arrived.text} That is where ${label(entity)} was${now}.` };
});

offer({
  name: 'follow', kind: 'ongoing', moves_body: true, reversible: true,
  description: 'Stay close to somebody until you are told otherwise, or for some seconds.',
  properties: {
    who: WHO, within: { type: 'number', minimum: 1, maximum: 16, description: 'Blocks to keep; 3 if left out.' },
    seconds: { type: 'number', minimum: 1, maximum: 3600, description: '300 if left out.' },
  },
  required: ['who'],
}, async (context, args) => {
  const { bot } = context;
  const entity = entityNamed(bot, args.who);
  const find = () => (entity.username ? bot.players[entity.username]?.entity ?? null : bot.entities[entity.id] ?? null);
  const within = number(args.within, 'within', 1, 16, 3);
  return follow(context, { find, name: label(entity), within, seconds: number(args.seconds, 'seconds', 1, 3_600, 300) });
});

offer({
  name: 'stop', description: 'Stop walking or following.', moves_body: true, reversible: true,
}, async ({ bot }) => {
  const walked = halt(bot, 'you decided to stop');
  return { text: `${walked ? 'You stop' : 'You were not walking'}: you are at ${coordinates(bot.entity.position)}.` };
});

// ---------------------------------------------------------------- hands

offer({
  name: 'attack', description: 'Strike at a creature or player within reach, once, with what is in your hand.',
  properties: { target: WHO }, required: ['target'],
}, async ({ bot, signal }, { target }) => {
  const entity = entityNamed(bot, target);
  within(bot, entity.position, label(entity));
  await unless(signal, bot.lookAt(entity.position.offset(0, (entity.height ?? 1) * 0.7, 0), true));
  bot.attack(entity);
  return { text: `You struck at ${label(entity)}. Whether it was hurt you will see.`, data: { entity: entity.id } };
});

offer({
  name: 'dig', kind: 'ongoing', description: 'Break the block at a place within reach, with what is in your hand.',
  properties: { x: WHOLE, y: WHOLE, z: WHOLE }, required: ['x', 'y', 'z'],
}, async ({ bot, signal }, args) => {
  const at = spot(args);
  const block = blockAt(bot, at);
  if (block.boundingBox === 'empty' && !block.diggable) throw new ActFailed('nothing_there', `there is nothing to dig at ${coordinates(at)}`);
  within(bot, at.offset(0.5, 0.5, 0.5), block.name);
  if (!bot.canDigBlock(block)) throw new ActFailed('cannot', `${block.name} at ${coordinates(at)} cannot be dug from here`);
  try {
    await unless(signal, bot.dig(block, true));
  } finally {
    bot.stopDigging?.();
  }
  await pause(signal, 200);
  const now = bot.blockAt(at);
  if (now?.type === block.type) throw new ActFailed('not_done', `${block.name} at ${coordinates(at)} is still there`);
  return { text: `You dug out ${block.name} at ${coordinates(at)}.`, data: { block: block.name } };
});

const SIDES = [[0, -1, 0], [1, 0, 0], [-1, 0, 0], [0, 0, 1], [0, 0, -1], [0, 1, 0]].map(side => new Vec3(...side));

offer({
  name: 'place', kind: 'ongoing', description: 'Put a block that you carry at an empty place within reach, beside another block.',
  properties: { item: { type: 'string', description: 'Its name, as the inventory says it.' }, x: WHOLE, y: WHOLE, z: WHOLE }, required: ['item', 'x', 'y', 'z'],
}, async ({ bot, signal }, args) => {
  const at = spot(args);
  const item = bot.inventory.items().find(each => each.name === args.item);
  if (item === undefined) throw new ActFailed('no_such_item', 'you do not carry that');
  if (blockAt(bot, at).boundingBox !== 'empty') throw new ActFailed('occupied', `${coordinates(at)} is not empty`);
  within(bot, at.offset(0.5, 0.5, 0.5), 'that place');
  const side = SIDES.find(each => bot.blockAt(at.plus(each))?.boundingBox === 'block');
  if (side === undefined) throw new ActFailed('cannot', `there is no block beside ${coordinates(at)} to put it on`);
  await unless(signal, bot.equip(item, 'hand'));
  let trouble = null;
  await unless(signal, bot.placeBlock(bot.blockAt(at.plus(side)), side.scaled(-1)).catch(error => { trouble = error; }));
  await pause(signal, 200);
  const now = bot.blockAt(at);
  const why = trouble ? `: ${String(trouble.message).slice(0, 120)}` : '';
  if (!now || now.boundingBox === 'empty') throw new ActFailed('not_done', `nothing stands at ${coordinates(at)}${why}`);
  return { text: `You placed ${now.name} at ${coordinates(at)}.`, data: { block: now.name } };
});

export const SPECS = [...ACTIONS.values()].map(({ spec }) => spec);

// ---------------------------------------------------------------- arguments

function number(value, name, low, high, otherwise) {
  if (value === undefined || value === null) return otherwise;
  if (typeof value !== 'number' || !Number.isFinite(value) || value < low || value > high) {
    throw new ActFailed('bad_args', `${name} must be a number from ${low} to ${high}`);
  }
  return value;
}

function place(args, { y: needed }) {
  const at = Object.fromEntries(['x', 'y', 'z'].map(axis => [axis, number(args[axis], axis, -30_000_000, 30_000_000, undefined)]));
  if (at.x === undefined || at.z === undefined || (needed && at.y === undefined)) {
    throw new ActFailed('bad_args', needed ? 'x, y and z are needed' : 'x and z are needed, or to');
  }
  return at;
}

function spot(args) {
  const { x, y, z } = place(args, { y: true });
  return new Vec3(Math.floor(x), Math.floor(y), Math.floor(z));
}

function blockAt(bot, at) {
  const block = bot.blockAt(at);
  if (block === null) throw new ActFailed('out_of_sight', `${coordinates(at)} is too far away to be seen`);
  return block;
}

function within(bot, at, what) {
  const away = distance(bot.entity.position.offset(0, 1.6, 0), at);
  if (away > REACH + 0.5) throw new ActFailed('too_far', `${what} is ${Math.round(away)} blocks away, your reach is ${Math.floor(REACH)}`);
}

function playerNamed(bot, wanted) {
  const name = typeof wanted === 'string' ? wanted.trim().toLowerCase() : '';
  const found = Object.keys(bot.players).find(each => each.toLowerCase() === name && each !== bot.username);
  // Only a name of the game's own form goes into a command.
  if (found === undefined || !/^\w{1,16}$/.test(found)) throw new ActFailed('no_such_player', 'no other player of that name is in the game');
  return found;
}

function entityNamed(bot, wanted) {
  const name = String(wanted ?? '').trim().toLowerCase().replace(/^entity:/, '').replace(/^an? /, '');
  const near = creatures(bot, 128);
  const found = near.find(each => each.username?.toLowerCase() === name) ?? near.find(each => String(each.id) === name)
    ?? near.find(each => [each.name, each.displayName].some(known => String(known ?? '').toLowerCase() === name));
  if (found === undefined) throw new ActFailed('not_in_sight', 'nobody of that name is in sight');
  return found;
}
