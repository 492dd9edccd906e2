// The websocket server: who may come in, and which life each connection is about.
//
// Invariant: it listens on the loopback only; a token is compared, never shown; one NPC has one guest, the newest; no page in a browser gets
// in, and no name that Minecraft would not have.

import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';

import { WebSocketServer } from 'ws';

import { CODECS, MAX_FRAME } from './codec.js';
import { CLOSE, Guest } from './guest.js';
import { Life } from './life.js';
import { LINE_CHARS, NAME } from './talk.js';

const LIVES = 100; // NPCs of one bridge
const GUESTS = 200; // connections at a time
const ACTS_PER_S = 4;

export class Bridge {
  #lives = new Map();
  #guests = new Set();
  #connections = 0;
  #token;
  #http;
  #sockets;

  /** `options`: host, port, version, auth, profiles of the game; world, sight, linger, heartbeat, npcs of ours. `log(npc, words)`. */
  constructor({ options, token = '', log = () => {} }) {
    this.options = options;
    this.epoch = randomBytes(6).toString('hex');
    this.log = log;
    this.#token = token;
    this.#sockets = new WebSocketServer({
      noServer: true, maxPayload: MAX_FRAME, perMessageDeflate: false, clientTracking: false,
      handleProtocols: offered => [...CODECS.keys()].find(name => offered.has(name)) ?? false,
    });
    this.#http = createServer((_, answer) => answer.writeHead(426, { 'content-type': 'text/plain' }).end('Speak npc-world v1 by websocket.\n'));
    this.#http.on('upgrade', (request, socket, head) => this.#upgrade(request, socket, head));
  }

  /** Opens the door on 127.0.0.1; answers the port. */
  listen(port) {
    return new Promise((resolve, reject) => {
      this.#http.once('error', reject);
      this.#http.listen(port, '127.0.0.1', () => resolve(this.#http.address().port));
    });
  }

  /** Says goodbye to all agents, who may come again after so many seconds, and leaves the game. */
  async close({ retryAfter = 1 } = {}) {
    this.#http.close();
    for (const life of this.#lives.values()) {
      life.stopAll('the bridge is closing');
      life.body.leave();
    }
    await new Promise(setImmediate); // the ends of actions go out before the goodbye
    for (const guest of this.#guests) guest.hangUp(CLOSE.retry, 'going away', { retryAfter });
  }

  /** Something in the client library broke: all bodies join anew, nothing else is lost. */
  dropBodies() {
    for (const life of this.#lives.values()) life.body.drop();
  }

  // What guests ask

  hello() {
    const [life] = [...this.#lives.values()].filter(each => each.body.worldTime !== null);
    return {
      op: 'hello', world: this.options.world, epoch: this.epoch, heartbeat_s: this.options.heartbeat, max_frame: MAX_FRAME,
      limits: { say_chars: LINE_CHARS, acts_per_s: ACTS_PER_S }, time: life?.body.worldTime ?? '',
    };
  }

  admit(guest, { npc, agent, resume }) {
    // The token first: whoever has none learns not even which names exist.
    if (!this.#authorised(guest.token)) return guest.hangUp(CLOSE.unauthorised, 'not authorised');
    if (!NAME.test(npc)) return guest.hangUp(CLOSE.unknownNpc, 'a Minecraft name has 3 to 16 letters, digits and underscores');
    if (this.options.npcs !== null && !this.options.npcs.has(npc)) return guest.hangUp(CLOSE.unknownNpc, 'unknown npc');
    let life = this.#lives.get(npc);
    if (life === undefined) {
      if (this.#lives.size >= LIVES) return guest.hangUp(CLOSE.retry, 'this bridge is full', { retryAfter: 60 });
      life = this.#born(npc);
    }
    const former = life.guest;
    // The attach of a connection whose agent has long come back by another: late, not newer.
    if (former !== null && former.number > guest.number) return guest.hangUp(CLOSE.replaced, 'replaced by a newer attach');
    life.guest = guest;
    if (former !== null && former !== guest) former.hangUp(CLOSE.replaced, 'replaced by a newer attach');
    clearTimeout(life.linger);
    const known = resume !== null && resume.epoch === this.epoch && ['', this.options.world].includes(resume.world);
    const { next, lost } = life.replay.begin(known ? resume.seq : null);
    guest.enter(life, { op: 'welcome', npc, session: life.session, resumed: known, next_seq: next, lost }, life.greeting());
    this.log(npc, `attached by ${agent || 'an agent'}${known ? ', resumed' : ''}`);
    life.body.join();
  }

  left(guest) {
    this.#guests.delete(guest);
    const { life } = guest;
    if (life === null || life.guest !== guest) return;
    life.guest = null;
    this.log(life.npc, 'detached');
    life.linger = setTimeout(() => life.body.leave(), this.options.linger * 1_000).unref();
  }

  // Inside

  #born(npc) {
    const log = words => this.log(npc, words);
    const life = new Life({ npc, session: `${this.epoch}/${npc}`, options: this.options, isNpc: name => this.#lives.has(name), log });
    life.body.onReplaced = () => life.guest?.hangUp(CLOSE.replaced, 'the name logged in elsewhere');
    this.#lives.set(npc, life);
    return life;
  }

  #authorised(token) {
    return this.#token === '' || timingSafeEqual(digest(this.#token), digest(token));
  }

  #upgrade(request, socket, head) {
    socket.on('error', () => socket.destroy());
    const refuse = status => socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
    if (request.headers.origin !== undefined) return refuse('403 Forbidden'); // any page that a person looks at could knock here
    if (this.#guests.size >= GUESTS) return refuse('503 Service Unavailable');
    const offered = String(request.headers['sec-websocket-protocol'] ?? '').split(',').map(each => each.trim());
    if (!offered.some(each => CODECS.has(each))) return refuse('400 Bad Request');
    const [, token = ''] = /^bearer +(.*)$/i.exec(String(request.headers.authorization ?? '').trim()) ?? [];
    this.#sockets.handleUpgrade(request, socket, head, ws => {
      this.#connections += 1;
      const codec = CODECS.get(ws.protocol);
      this.#guests.add(new Guest({
        bridge: this, socket: ws, codec, token, number: this.#connections,
      }));
    });
  }
}

function digest(text) {
  return createHash('sha256').update(text).digest();
}
