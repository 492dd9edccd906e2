// W1, W3: the connection's rules, with a socket that is a list.
import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { test } from 'node:test';

import { CODECS } from '../codec.js';
import { Guest } from '../guest.js';
import { Ledger } from '../ledger.js';
import { Replay } from '../replay.js';

class Socket extends EventEmitter {
  OPEN = 1;
  readyState = 1;
  bufferedAmount = 0;
  sent = [];
  closedWith = null;
  send(data) { this.sent.push(JSON.parse(data)); }
  close(code) { this.closedWith = code; this.readyState = 2; }
  terminate() { this.readyState = 3; }
  ops() { return this.sent.map(frame => frame.op); }
}

function connected(t, { heartbeat = 30 } = {}) {
  const clock = { ms: 0 };
  const life = { npc: 'Warden', replay: new Replay(), ledger: new Ledger(), acts: [], act(frame) { this.acts.push(frame.id); }, cancel() {} };
  const bridge = {
    options: { heartbeat },
    hello: () => ({ op: 'hello' }),
    left() {},
    admit(guest, { resume }) {
      const { next, lost } = life.replay.begin(resume?.seq ?? null);
      guest.enter(life, { op: 'welcome', next_seq: next, lost });
    },
  };
  const socket = new Socket();
  const guest = new Guest({ bridge, socket, codec: CODECS.get('npc-world.v1.json'), token: '', number: 1, now: () => clock.ms });
  t.after(() => guest.hangUp(1000, 'the end', { dead: true }));
  const hears = frame => guest.received(Buffer.from(typeof frame === 'string' ? frame : JSON.stringify(frame)));
  const observe = text => { life.replay.add({ t: 0, kind: 'notice', text }); guest.pump(); };
  return { clock, life, socket, guest, hears, observe };
}

const numbers = socket => socket.sent.flatMap(frame => (frame.op === 'obs' ? [frame.seq] : (frame.items ?? []).map(each => each.seq)));

test('hello first, then welcome, then what waits, each once', t => {
  const { life, socket, hears, observe } = connected(t);
  life.replay.add({ t: 0, kind: 'notice', text: 'before' });
  assert.deepEqual(socket.ops(), ['hello']);
  hears({ op: 'attach', npc: 'Warden' });
  observe('after');
  assert.deepEqual(socket.ops(), ['hello', 'welcome', 'obs', 'obs']);
  assert.deepEqual(numbers(socket), [1, 2]);
});

test('a socket that takes nothing costs nothing, and loses nothing', t => {
  const { life, socket, guest, hears, observe } = connected(t);
  hears({ op: 'attach', npc: 'Warden' });
  socket.bufferedAmount = 10_000_000;
  for (let n = 0; n < 600; n += 1) observe(`word ${n}`);
  guest.say({ op: 'act_result', id: 'a', state: 'done' });
  assert.deepEqual(socket.ops(), ['hello', 'welcome']);
  socket.bufferedAmount = 0;
  guest.pump();
  assert.deepEqual(numbers(socket), Array.from({ length: 600 }, (_, n) => n + 1));
  assert.equal(socket.sent.at(-1).op, 'act_result'); // what happened before it goes before it
  assert.equal(life.replay.waiting, 600);
  hears({ op: 'ack', seq: 600 });
  assert.equal(life.replay.waiting, 0);
});

test('what was never sent cannot be acknowledged', t => {
  const { life, hears, socket, observe } = connected(t);
  hears({ op: 'attach', npc: 'Warden' });
  socket.bufferedAmount = 10_000_000;
  observe('kept');
  hears({ op: 'ack', seq: 1 });
  assert.equal(life.replay.waiting, 1);
});

test('ten malformed frames in a minute end it with 4002, fewer do not', t => {
  const { clock, socket, hears, life } = connected(t);
  hears({ op: 'attach', npc: 'Warden' });
  const bad = ['{', '[]', '"x"', '{"op": 7}', '{"op":"act"}', '{"op":"act","id":"a","name":"say","args":[]}', '{"op":"ack","seq":-1}', '\u0000', '{"op":"cancel","id":"a\\nb"}'];
  for (const frame of bad) hears(frame);
  assert.equal(socket.closedWith, null);
  clock.ms += 61_000;
  hears('{');
  assert.equal(socket.closedWith, null);
  hears({ op: 'a future op', any: 'thing' });
  hears({ op: 'act', id: 'still obeyed', name: 'say' });
  assert.deepEqual(life.acts, ['still obeyed']);
  for (const frame of bad) hears(frame);
  assert.equal(socket.closedWith, 4002);
  assert.deepEqual(socket.sent.at(-1), { op: 'bye', code: 4002, reason: 'malformed frames', resumable: true });
  hears({ op: 'act', id: 'too late', name: 'say' });
  assert.deepEqual(life.acts, ['still obeyed']);
});

test('silence: a ping after one heartbeat, the end after two', t => {
  const { clock, socket, guest, hears } = connected(t, { heartbeat: 10 });
  hears({ op: 'attach', npc: 'Warden' });
  clock.ms = 10_000;
  guest.tick();
  assert.equal(socket.ops().at(-1), 'ping');
  clock.ms = 19_000;
  hears({ op: 'pong', n: 1 });
  clock.ms = 30_000;
  guest.tick();
  assert.equal(socket.readyState, 1);
  clock.ms = 39_000;
  guest.tick();
  assert.equal(socket.readyState, 3);
});

test('what stays unacknowledged for two heartbeats is sent again', t => {
  const { clock, socket, guest, hears, observe } = connected(t, { heartbeat: 10 });
  hears({ op: 'attach', npc: 'Warden' });
  observe('the last word');
  clock.ms = 15_000;
  hears({ op: 'ping', n: 1 });
  clock.ms = 21_000;
  guest.tick();
  assert.deepEqual(numbers(socket), [1, 1]);
});

test('who does not attach is sent away', t => {
  const { clock, socket, guest } = connected(t);
  clock.ms = 10_000;
  guest.tick();
  assert.equal(socket.closedWith, 1000);
});

test('nothing is done for whoever is not attached, nor as somebody else', t => {
  const { life, socket, hears } = connected(t);
  for (let n = 0; n < 5; n += 1) hears({ op: 'act', id: `early ${n}`, name: 'say' });
  hears({ op: 'attach', npc: 'Warden' });
  for (let n = 0; n < 4; n += 1) hears({ op: 'attach', npc: 'Bob' });
  assert.deepEqual(life.acts, []);
  assert.equal(socket.closedWith, null);
  hears({ op: 'attach', npc: 'Bob' });
  assert.equal(socket.closedWith, 4002);
});

test('an agent that asks and never reads is let go', t => {
  const { socket, hears } = connected(t);
  hears({ op: 'attach', npc: 'Warden' });
  socket.bufferedAmount = 10_000_000;
  for (let n = 0; n < 10_100; n += 1) hears({ op: 'query', id: `a${n}` });
  assert.equal(socket.readyState, 3);
});
