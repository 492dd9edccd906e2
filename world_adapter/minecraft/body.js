// The bot that is an NPC's body: joins, is thrown out, comes again.
//
// Invariant: at most one bot at a time, and the end of an older one changes nothing for the newer; `bot` is one that stands in the world, or
// null, and `why` then says why. Whatever the game's server does, the body is wanted until `leave`: it is tried again with a back-off that
// doubles, and the NPC is told once per absence.

import mineflayer from 'mineflayer';
import pathfinding from 'mineflayer-pathfinder';

import { coordinates } from './movements.js';
import { Senses } from './senses.js';

const JOIN_MS = 30_000;
const CHUNKS_MS = 5_000;
const RETRY_MS = 500;
const RETRY_CAP_MS = 30_000;
const STEADY_MS = 10_000; // a stay that lasted this long begins the back-off anew
const ELSEWHERE = /duplicate_login|logged in from another location/i;

export class Body {
  #life;
  #options;
  #senses;
  #log;
  #wanted = false;
  #client = null; // the mineflayer bot from its first packet to its last
  #tries = 0;
  #retry = null;
  #toldAway = false;

  constructor({ life, options, isNpc, log }) {
    this.#life = life;
    this.#options = options;
    this.#log = log;
    this.#senses = new Senses({ life, sight: options.sight, isNpc });
    this.bot = null;
    this.why = 'joining';
  }

  /** The world's own time, null while it is not known. */
  get worldTime() {
    const time = this.bot?.time;
    if (!time || !Number.isFinite(time.timeOfDay) || !Number.isFinite(time.day)) return null;
    const minutes = Math.floor(((time.timeOfDay / 1000 + 6) % 24) * 60);
    return `day ${time.day}, ${String(Math.floor(minutes / 60)).padStart(2, '0')}:${String(minutes % 60).padStart(2, '0')}`;
  }

  get whereabouts() {
    return this.bot?.entity ? coordinates(this.bot.entity.position) : null;
  }

  /** Into the game, and back into it whenever it is lost. */
  join() {
    if (this.#wanted) return;
    this.#wanted = true;
    this.#tries = 0;
    this.why = 'joining';
    this.#connect();
  }

  /** Out of the game. */
  leave() {
    this.#wanted = false;
    clearTimeout(this.#retry);
    this.#client?.quit();
  }

  /** The connection is given up, to be made anew: something in the client library broke. */
  drop() {
    this.#client?.end('dropped');
  }

  #connect() {
    this.#letGo();
    let bot;
    const { host, port, version, auth, profiles } = this.#options;
    try {
      bot = mineflayer.createBot({
        host, port, username: this.#life.npc, version: version ?? false, auth, profilesFolder: profiles ?? false, viewDistance: 'short',
        logErrors: false, hideErrors: true, checkTimeoutInterval: JOIN_MS, defaultChatPatterns: false,
        onMsaCode: code => this.#log(`to log in, open ${code.verification_uri} and enter ${code.user_code}`),
      });
    } catch (error) {
      this.#lost(null, `the client cannot start: ${error.message}`);
      return;
    }
    this.#client = bot;
    let trouble = null;
    let kicked = null;
    let since = null;
    let ended = false;
    const late = setTimeout(() => end(`not in the world within ${JOIN_MS / 1000} s`), JOIN_MS);
    const end = reason => {
      if (ended) return;
      ended = true;
      clearTimeout(late);
      bot.removeAllListeners('physicsTick');
      if (this.#client !== bot) return; // a newer one has taken its place, so that its end says nothing
      this.#client = null;
      const stayed = since === null ? 0 : performance.now() - since;
      if (stayed >= STEADY_MS) this.#tries = 0;
      this.#lost(bot, kicked ?? trouble ?? reason);
      if (!bot._client?.ended) bot.end?.('left');
    };
    bot.on('error', error => { trouble ??= reasonOf(error); });
    bot.on('kicked', reason => { kicked ??= `thrown out: ${wordsOf(reason)}`; });
    bot.on('end', reason => end(String(reason ?? 'the connection ended')));
    // A server that never answers: the socket's own error may be all there is.
    bot._client?.on('error', () => setTimeout(() => { if (since === null) end(trouble ?? 'no connection'); }, 50));
    this.#senses.hear(bot);
    bot.loadPlugin(pathfinding.pathfinder);
    bot.once('spawn', async () => {
      await Promise.race([bot.waitForChunksToLoad().catch(() => {}), new Promise(done => setTimeout(done, CHUNKS_MS))]);
      if (ended) return;
      clearTimeout(late);
      since = performance.now();
      const manners = new pathfinding.Movements(bot);
      Object.assign(manners, { canDig: false, allow1by1towers: false, scafoldingBlocks: [] }); // a walk changes nothing in the world
      bot.pathfinder.setMovements(manners);
      bot.pathfinder.thinkTimeout = 5_000;
      this.bot = bot;
      this.#toldAway = false;
      this.#log('in the game');
      this.#senses.attach(bot);
    });
  }

  /** A client that left a moment ago and has not ended yet: the body comes back without it. */
  #letGo() {
    const former = this.#client;
    if (former === null) return;
    this.#client = null;
    this.bot = null;
    this.#senses.detach(former);
    this.#life.stopAll('your body has come into the game anew');
    former._client?.socket?.destroy();
  }

  #lost(bot, reason) {
    const was = this.bot;
    this.bot = null;
    this.why = reason;
    if (bot !== null) this.#senses.detach(bot);
    this.#life.stopAll(`you are out of the game (${reason})`);
    if (!this.#wanted) return;
    if (ELSEWHERE.test(reason)) {
      this.#wanted = false;
      this.#life.observe('notice', `You are out of the game: somebody else has logged in as ${this.#life.npc}.`, { prio: 8 });
      this.onReplaced?.();
      return;
    }
    if (was !== null || !this.#toldAway) {
      this.#toldAway = true;
      this.#log(`out of the game: ${reason}`);
      this.#life.observe('notice', `You are out of the game: ${reason}. Coming back is being tried.`, { prio: 8 });
    }
    const wait = Math.min(RETRY_MS * 2 ** this.#tries, RETRY_CAP_MS) * (0.75 + Math.random() / 2);
    this.#tries += 1;
    this.#retry = setTimeout(() => { if (this.#wanted) this.#connect(); }, wait);
  }
}

function reasonOf(error) {
  if (error?.code === 'ECONNREFUSED') return 'the Minecraft server does not answer';
  return String(error?.message ?? error).slice(0, 200);
}

/** The words of a kick, which come as a text, as JSON of a chat message, or as such a message. */
function wordsOf(reason) {
  try {
    const value = typeof reason === 'string' ? JSON.parse(reason) : reason;
    return flat(value, 0).slice(0, 200) || 'without a word';
  } catch {
    return String(reason).slice(0, 200);
  }
}

function flat(value, depth) {
  if (value === null || value === undefined || depth > 8) return '';
  if (typeof value !== 'object') return String(value);
  if (Array.isArray(value)) return value.slice(0, 50).map(each => flat(each, depth + 1)).join('');
  const inner = value.type === 'compound' || value.type === 'string' || value.type === 'list' ? value.value : value;
  if (inner !== value) return flat(inner, depth + 1);
  const own = flat(value.text, depth + 1) || (typeof value.translate === 'object' ? flat(value.translate, depth + 1) : value.translate ?? '');
  return own + flat(value.extra, depth + 1);
}
