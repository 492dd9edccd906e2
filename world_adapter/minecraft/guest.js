// One connection of an agent: the greeting, the order of frames, the heartbeat, the end.
//
// Invariant: what happened before a frame was said goes out before it; observations are pulled from the life's replay as fast as the socket
// takes them, so a slow agent costs no memory; nothing that an agent sends throws, and nothing is obeyed after `hangUp`.

import { decode } from './codec.js';

const BATCH_ITEMS = 256;
const BATCH_CHARS = 262_144;
const QUEUED_BYTES = 1_048_576; // what may lie in the socket before we wait
const UNSENT = 10_000; // frames for an agent that does not read
const ATTACH_MS = 10_000;
const MALFORMED = 10;
const MALFORMED_MS = 60_000;
const CLOSE_MS = 1_000;

export const CLOSE = { normal: 1000, away: 1001, unauthorised: 4001, malformed: 4002, replaced: 4003, unknownNpc: 4004, retry: 4005 };
const FINAL = new Set([CLOSE.unauthorised, CLOSE.replaced, CLOSE.unknownNpc]);

export class Guest {
  #codec;
  #bridge;
  #socket;
  #out = []; // { frame, after }: a frame, and up to which number observations go before it
  #cursor = 0; // the number sent last
  #hung = false;
  #heardAt;
  #saidAt;
  #pingedAt;
  #ackedAt;
  #bornAt;
  #malformedAt = [];
  #timer;

  /** `number` rises from connection to connection; `token` is what the agent bore. */
  constructor({ bridge, socket, codec, token, number, now = () => performance.now() }) {
    this.#bridge = bridge;
    this.#socket = socket;
    this.#codec = codec;
    this.token = token;
    this.number = number;
    this.life = null; // once admitted
    this.now = now;
    this.#bornAt = this.#heardAt = this.#saidAt = this.#pingedAt = this.#ackedAt = now();
    this.#timer = setInterval(() => this.tick(), Math.min(1_000, this.#heartbeat / 4));
    socket.on('message', bytes => this.received(bytes));
    socket.on('close', () => this.#closed());
    socket.on('error', () => {}); // a close follows, and is all that matters
    this.say(bridge.hello());
  }

  get #heartbeat() {
    return this.#bridge.options.heartbeat * 1_000;
  }

  /** Puts a frame behind all that has happened so far. */
  say(frame) {
    if (this.#hung) return;
    if (this.#out.length >= UNSENT) return this.hangUp(CLOSE.retry, 'it asks for more than it reads', { dead: true });
    this.#out.push({ frame, after: this.life?.replay.newest ?? 0 });
    this.pump();
  }

  /** Admitted: the welcome and what goes with it come before the replay. */
  enter(life, welcome, ...greeting) {
    this.life = life;
    this.#cursor = welcome.next_seq - 1;
    for (const frame of [welcome, ...greeting]) this.#out.push({ frame, after: this.#cursor });
    this.pump();
  }

  hangUp(code, reason, { retryAfter = null, dead = false } = {}) {
    if (this.#hung) return;
    if (!dead) {
      this.#send({ op: 'bye', code, reason, resumable: !FINAL.has(code), ...(retryAfter === null ? {} : { retry_after_s: retryAfter }) });
      this.#socket.close(code, reason);
    }
    this.#hung = true;
    clearInterval(this.#timer);
    if (dead) this.#socket.terminate();
    else setTimeout(() => this.#socket.terminate(), CLOSE_MS).unref();
  }

  received(bytes) {
    if (this.#hung) return;
    this.#heardAt = this.now();
    const frame = decode(this.#codec, bytes);
    if (frame === null) return this.#countMalformed();
    switch (frame.op) {
      case 'ping':
        return this.say({ op: 'pong', n: frame.n });
      case 'pong':
      case 'unknown':
        return;
      case 'attach':
        return this.life === null || this.life.npc === frame.npc ? this.#bridge.admit(this, frame) : this.#countMalformed();
    }
    if (this.life === null) return this.#countMalformed();
    switch (frame.op) {
      case 'ack':
        this.life.replay.ack(Math.min(frame.seq, this.#cursor));
        this.#ackedAt = this.now();
        return;
      case 'act':
        return this.life.act(frame);
      case 'cancel':
        return this.life.cancel(frame.id);
      case 'query':
        return this.say({ op: 'act_result', ...this.life.ledger.answer(frame.id) });
    }
  }

  tick() {
    if (this.#hung) return;
    const now = this.now();
    const silence = now - this.#heardAt;
    if (silence >= 2 * this.#heartbeat) return this.hangUp(CLOSE.away, 'silent', { dead: true });
    if (this.life === null && now - this.#bornAt >= ATTACH_MS) return this.hangUp(CLOSE.normal, 'no attach came');
    const quiet = Math.max(Math.min(this.#heardAt, this.#saidAt), this.#pingedAt);
    if (now - quiet >= this.#heartbeat) {
      this.#pingedAt = now;
      this.say({ op: 'ping', n: Math.floor(now) });
    }
    // The last words before a pause have no successor by which their loss could be noticed.
    if (this.life !== null && this.#cursor > this.life.replay.acked && now - this.#ackedAt >= 2 * this.#heartbeat) {
      this.#cursor = this.life.replay.acked;
      this.#ackedAt = now;
    }
    this.pump();
  }

  /** Sends what can be sent now; the socket calls again when it has room. */
  pump() {
    while (!this.#hung && this.#socket.readyState === this.#socket.OPEN && this.#socket.bufferedAmount < QUEUED_BYTES) {
      const frame = this.#next();
      if (frame === null) return;
      this.#send(frame);
    }
  }

  #next() {
    if (this.#out.length > 0 && (this.life === null || this.#out[0].after <= this.#cursor)) return this.#out.shift().frame;
    if (this.life === null) return null;
    const { replay } = this.life;
    const items = Math.min(this.#out.length > 0 ? this.#out[0].after - this.#cursor : BATCH_ITEMS, BATCH_ITEMS);
    const batch = replay.after(this.#cursor, { items, chars: BATCH_CHARS });
    if (batch === null) {
      this.hangUp(CLOSE.retry, 'fell behind the replay window', { retryAfter: 0 });
      return null;
    }
    if (batch.length === 0) return null;
    if (this.#cursor === replay.acked) this.#ackedAt = this.now();
    this.#cursor = batch.at(-1).seq;
    return batch.length === 1 ? { op: 'obs', ...batch[0] } : { op: 'batch', items: batch };
  }

  #send(frame) {
    if (this.#socket.readyState !== this.#socket.OPEN) return;
    this.#saidAt = this.now();
    this.#socket.send(this.#codec.encode(frame), () => this.pump());
  }

  #countMalformed() {
    const now = this.now();
    this.#malformedAt = [...this.#malformedAt.filter(at => now - at < MALFORMED_MS), now];
    if (this.#malformedAt.length >= MALFORMED) this.hangUp(CLOSE.malformed, 'malformed frames');
  }

  #closed() {
    this.#hung = true;
    clearInterval(this.#timer);
    this.#bridge.left(this);
  }
}
