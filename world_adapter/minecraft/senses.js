// What happens around a bot, as observations.
//
// Invariant: a storm of movements costs the NPC a small batch every half second at most, and while its agent is behind none at all: places
// are held here, merged, until it has caught up. Words are never held back.

import { Movements, bearing, coordinates, distance, plainPosition } from './movements.js';
import { describe, isCreature, label, placeOf } from './scene.js';
import { heard, names } from './talk.js';

const TICK_MS = 500;
const BEHIND = 500; // unacknowledged observations beyond which places wait
const OWN_STEP = 1; // blocks
const THROWN = 4; // blocks: a move by the server that is no mere correction
const FIGHTS = 200; // wounds that are held for an NPC that is behind
const FIGHT = 16; // blocks within which others' wounds are noticed

export class Senses {
  #life;
  #movements;
  #isNpc;
  #listeners = [];
  #timer = null;
  #toldAt = null;
  #health = null;
  #hungry = false;
  #daylight = null;
  #raining = null;
  #fights = new Map(); // entity id: words, until the next tick

  /** `isNpc(name)`: whether another NPC of this bridge has that body. */
  constructor({ life, sight, isNpc }) {
    this.#life = life;
    this.#isNpc = isNpc;
    this.#movements = new Movements({ sight });
  }

  /** Words are heard from the first packet on: others may speak before the world around the body is loaded. */
  hear(bot) {
    this.#on(bot, 'messagestr', (line, position, message, sender) => this.#message(bot, line, position, message, sender));
  }

  /** All the other senses, for a bot that stands in the world. */
  attach(bot) {
    const on = (event, tell) => this.#on(bot, event, tell);
    this.#health = bot.health;
    this.#hungry = bot.food <= 6;
    this.#daylight = this.#raining = null;
    for (const entity of Object.values(bot.entities)) this.#appeared(bot, entity);
    on('playerJoined', player => this.#presence(bot, player, 'has joined the game'));
    on('playerLeft', player => this.#presence(bot, player, 'has left the game'));
    on('entitySpawn', entity => this.#appeared(bot, entity));
    on('entityMoved', entity => this.#movements.moved(entity.id, entity.position));
    on('entityGone', entity => this.#movements.vanished(entity.id));
    on('entityHurt', entity => this.#fight(bot, entity, 'is hurt'));
    on('entityDead', entity => this.#fight(bot, entity, 'dies'));
    on('health', () => this.#felt(bot));
    on('death', () => this.#life.observe('hurt', 'You died.', { prio: 9, data: { health: 0 } }));
    on('spawn', () => this.#scene(bot, 'You are alive again.'));
    on('forcedMove', () => this.#thrown(bot));
    on('playerCollect', (collector, collected) => this.#collected(bot, collector, collected));
    on('time', () => this.#sky(bot));
    on('rain', () => this.#sky(bot));
    this.#timer = setInterval(() => this.#tick(bot), TICK_MS);
    this.#scene(bot, 'You are in the game.');
  }

  detach(bot) {
    clearInterval(this.#timer);
    for (const [event, listener] of this.#listeners) bot.removeListener(event, listener);
    this.#listeners = [];
    this.#movements.clear();
    this.#fights.clear();
    this.#toldAt = null;
  }

  #on(bot, event, tell) {
    // What a server sends may be torn in ways that the client library passes on. One such event costs itself.
    const listener = (...args) => {
      try {
        tell(...args);
      } catch (error) {
        this.#life.log(`cannot tell of ${event}: ${error.message}`);
      }
    };
    bot.on(event, listener);
    this.#listeners.push([event, listener]);
  }

  #scene(bot, first) {
    const { text, data } = describe(bot);
    this.#toldAt = bot.entity.position.clone();
    this.#movements.shown(this.#toldAt);
    this.#life.observe('scene', `${first} ${text}`, { prio: 6, key: 'scene', data });
  }

  #message(bot, line, position, message, sender) {
    if (position === 'game_info') return; // the line above the hotbar: not talk
    const json = message?.json ?? {};
    const name = Object.values(bot.players).find(player => sender && player.uuid === sender)?.username ?? null;
    const told = heard({
      line,
      translate: typeof json.translate === 'string' ? json.translate : null,
      parts: (message?.with ?? []).map(part => part.toString()),
      sender: name,
      chat: position === 'chat',
      online: who => who === bot.username || Object.hasOwn(bot.players, who) || this.#isNpc(who),
      me: bot.username,
    });
    if (told === null) return;
    if (told.kind === 'notice') {
      this.#life.observe('notice', told.text, { prio: 4, from: { id: 'server', name: 'the server', kind: 'world' } });
      return;
    }
    const own = told.who === bot.username;
    const to = told.to ?? (!own && names(told.text, bot.username) ? bot.username : null);
    this.#life.observe(told.kind, told.text, {
      prio: own ? 3 : 8,
      from: this.#person(told.who, own),
      ...(to === null ? {} : { to }),
      ...(own ? { self: true } : {}),
    });
    bot.emit('npc_heard', { ...told, own });
  }

  #person(name, own) {
    return { id: name, name, kind: own || this.#isNpc(name) ? 'npc' : 'player' };
  }

  #presence(bot, player, did) {
    const { username } = player;
    if (!username || username === bot.username) return;
    this.#life.observe('presence', `${username} ${did}.`, { prio: 4, key: `presence:${username}`, from: this.#person(username, false) });
  }

  #appeared(bot, entity) {
    if (entity !== bot.entity && isCreature(entity)) this.#movements.appeared(entity.id, entity.position);
  }

  #fight(bot, entity, what) {
    if (!entity?.position || entity === bot.entity || !isCreature(entity)) return;
    if (distance(bot.entity.position, entity.position) > FIGHT || this.#fights.size >= FIGHTS) return;
    this.#fights.set(entity.id, `${label(entity)} ${what}, ${bearing(bot.entity.position, entity.position)}.`);
  }

  #felt(bot) {
    const before = this.#health;
    this.#health = bot.health;
    if (before !== null && bot.health < before && bot.health > 0) {
      this.#life.observe('hurt', `You are hurt: health ${Math.ceil(bot.health)} of 20.`, { prio: 9, key: 'health', data: { health: bot.health } });
    }
    const hungry = bot.food <= 6;
    if (hungry && !this.#hungry) this.#life.observe('notice', `You are hungry: food ${bot.food} of 20.`, { prio: 5, key: 'food' });
    this.#hungry = hungry;
  }

  #thrown(bot) {
    const at = bot.entity.position;
    if (this.#toldAt === null || distance(at, this.#toldAt) < THROWN) return;
    this.#moved(bot, { text: `You were moved to ${coordinates(at)}.`, prio: 7 });
  }

  #moved(bot, { text, prio, self = false }) {
    this.#toldAt = bot.entity.position.clone();
    const data = { place: placeOf(bot), position: plainPosition(this.#toldAt) };
    this.#life.observe('moved', text, { prio, key: 'self', data, ...(self ? { self: true, from: this.#person(bot.username, true) } : {}) });
  }

  #collected(bot, collector, collected) {
    if (collector !== bot.entity) return;
    let what = 'something';
    try {
      const item = collected.getDroppedItem();
      what = `${item.count} ${item.name}`;
    } catch {
      // Its description has not come, or not whole; that it was picked up is true all the same.
    }
    this.#life.observe('item', `You picked up ${what}.`, { prio: 4, to: bot.username });
  }

  #sky(bot) {
    const light = bot.time?.isDay ? 'day' : 'night';
    if (this.#daylight !== null && light !== this.#daylight) {
      this.#life.observe('time', light === 'day' ? 'The sun rises.' : 'Night falls.', { prio: 3, key: 'daylight' });
    }
    this.#daylight = light;
    if (this.#raining !== null && Boolean(bot.isRaining) !== this.#raining) {
      this.#life.observe('time', bot.isRaining ? 'It begins to rain.' : 'The rain ends.', { prio: 2, key: 'weather' });
    }
    this.#raining = Boolean(bot.isRaining);
  }

  #tick(bot) {
    if (!bot.entity || this.#life.replay.waiting > BEHIND) return;
    const me = bot.entity.position;
    if (this.#toldAt !== null && distance(me, this.#toldAt) >= OWN_STEP) {
      this.#moved(bot, { text: `You are at ${coordinates(me)}.`, prio: 2, self: true });
    }
    for (const [id, text] of this.#fights) this.#life.observe('combat', text, { prio: 4, key: `combat:${id}` });
    this.#fights.clear();
    for (const { id, at } of this.#movements.flush(me)) {
      const entity = bot.entities[id];
      const who = entity ? label(entity) : 'Somebody';
      const text = at === null ? `${who} is out of sight.` : `${who} is ${bearing(me, at)}, at ${coordinates(at)}.`;
      const data = { entity: id, name: entity?.username ?? entity?.name ?? '', ...(at === null ? { gone: true } : { position: plainPosition(at) }) };
      this.#life.observe('moved', text, { prio: 1, key: `entity:${id}`, data });
    }
  }
}
