// The frames of npc-world v1 on the wire, and what an agent may say.
//
// Invariant: decoding keeps no state and never throws; a frame that comes out is a map whose `op` is a text and whose other fields are of the
// types of SPEC.md. Everything else is null, which the connection counts as malformed.

import { decode as unpack, encode as pack } from '@msgpack/msgpack';

export const MAX_FRAME = 262_144; // bytes that an agent may send in one frame

const ID = /^[^"'\\<>\u0000-\u001f\u007f]{1,128}$/u;

const asJson = {
  subprotocol: 'npc-world.v1.json',
  encode: frame => JSON.stringify(frame),
  parse: bytes => JSON.parse(bytes.toString('utf8')),
};

const asMsgpack = {
  subprotocol: 'npc-world.v1.msgpack',
  encode: frame => pack(frame, { ignoreUndefined: true }),
  parse: bytes => unpack(bytes),
};

export const CODECS = new Map([asMsgpack, asJson].map(codec => [codec.subprotocol, codec]));

/** The frame in these bytes: a map, `{ op: 'unknown' }` for an op of another version, or null if it is malformed. */
export function decode(codec, bytes) {
  let raw;
  try {
    raw = codec.parse(bytes);
  } catch {
    return null;
  }
  if (!isMap(raw) || typeof raw.op !== 'string') return null;
  const read = Object.hasOwn(READERS, raw.op) ? READERS[raw.op] : null;
  return read === null ? { op: 'unknown' } : read(raw);
}

export function isMap(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array);
}

const READERS = {
  attach: raw => isId(raw.npc) && { op: 'attach', npc: raw.npc, agent: line(raw.agent), resume: resume(raw.resume) },
  act: raw => isId(raw.id) && isId(raw.name) && (raw.args == null || isMap(raw.args))
    && { op: 'act', id: raw.id, name: raw.name, args: raw.args ?? {} },
  cancel: raw => isId(raw.id) && { op: 'cancel', id: raw.id },
  query: raw => isId(raw.id) && { op: 'query', id: raw.id },
  ack: raw => Number.isSafeInteger(raw.seq) && raw.seq >= 0 && { op: 'ack', seq: raw.seq },
  ping: raw => ({ op: 'ping', n: Number.isFinite(raw.n) ? raw.n : 0 }),
  pong: () => ({ op: 'pong' }),
};
for (const [op, read] of Object.entries(READERS)) READERS[op] = raw => read(raw) || null;

function isId(value) {
  return typeof value === 'string' && ID.test(value);
}

function line(value) {
  return typeof value === 'string' ? value.replace(/[\u0000-\u001f\u007f]+/g, ' ').slice(0, 80) : '';
}

function resume(raw) {
  if (!isMap(raw) || typeof raw.epoch !== 'string' || !Number.isSafeInteger(raw.seq) || raw.seq < 0) return null;
  return { epoch: raw.epoch, seq: raw.seq, world: typeof raw.world === 'string' ? raw.world : '' };
}
