// W3: a body that leaves and comes back, with a game's server that is slow to notice.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

import { Body } from '../body.js';

test('the end of the body before says nothing about the one that came after it', { timeout: 20_000 }, async t => {
  const sockets = [];
  const server = createServer({ allowHalfOpen: true }, socket => {
    socket.on('error', () => {});
    sockets.push(socket.resume());
    server.emit('knocked');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const told = [];
  const life = { npc: 'Warden', observe: (_, text) => told.push(text), stopAll() {}, log() {}, replay: { waiting: 0 } };
  const options = { host: '127.0.0.1', port: server.address().port, version: '1.18.2', auth: 'offline', sight: 0 };
  const body = new Body({ life, options, isNpc: () => false, log() {} });
  t.after(() => {
    body.leave();
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  body.join();
  await once(server, 'knocked');
  body.leave();
  body.join();
  await once(server, 'knocked');
  const gone = once(sockets[0], 'close');
  sockets[0].end();
  await gone;
  await pause(300); // what the old client still has to say
  assert.deepEqual(told, []);
  assert.equal(sockets.length, 2);
});
