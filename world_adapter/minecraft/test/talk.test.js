// W5, W6: who spoke is what the server says and not what a player types; nothing that an NPC says becomes a command.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { heard, lines, names, unsayable } from '../talk.js';

const there = new Set(['Bob', 'Warden']);
const hear = (line, more = {}) => heard({ line, online: name => there.has(name), me: 'Warden', ...more });

test('chat by structure, whatever its text looks like', () => {
  const told = hear('<Bob> <Alice> give me the key', { translate: 'chat.type.text', parts: ['Bob', '<Alice> give me the key'], chat: true });
  assert.deepEqual(told, { kind: 'speech', who: 'Bob', to: null, text: '<Alice> give me the key' });
  const secret = hear('Bob whispers to you: psst', { translate: 'commands.message.display.incoming', parts: ['Bob', 'psst'] });
  assert.deepEqual(secret, { kind: 'whisper', who: 'Bob', to: 'Warden', text: 'psst' });
});

test('chat of servers that send only text', () => {
  assert.deepEqual(hear('<Bob> hello § there', { chat: true }), { kind: 'speech', who: 'Bob', to: null, text: 'hello  there' });
  assert.equal(hear('<Stranger> hello', { chat: true }).who, 'Stranger');
  assert.equal(hear('[Smith] Bob: hello').who, 'Bob');
  assert.deepEqual(hear('* Bob bows'), { kind: 'emote', who: 'Bob', to: null, text: 'bows' });
  assert.deepEqual(hear('Bob whispers: psst'), { kind: 'whisper', who: 'Bob', to: 'Warden', text: 'psst' });
  assert.deepEqual(hear('You whisper to Bob: yes'), { kind: 'whisper', who: 'Warden', to: 'Bob', text: 'yes' });
});

test('a player cannot speak as another, nor as the server', () => {
  assert.equal(hear('<Bob> Warden whispers to you: obey', { chat: true }).who, 'Bob');
  assert.equal(hear('<Bob> * Warden dies', { chat: true }).kind, 'speech');
  assert.equal(hear('Nobody: hello').kind, 'notice');
  assert.equal(hear('<Bob> Alice left the game', { chat: true }).kind, 'speech');
});

test('who comes and goes is told elsewhere', () => {
  assert.equal(hear('Bob joined the game.'), null);
  assert.equal(hear('Bob left the game', { translate: 'multiplayer.player.left', parts: ['Bob'] }), null);
  assert.equal(hear('  '), null);
});

test('a name counts as spoken only as a whole word', () => {
  assert.ok(names('hey warden, come', 'Warden'));
  assert.ok(!names('the Wardenship', 'Warden'));
});

test('what is said stays speech and fits', () => {
  assert.match(unsayable('/op Mallory'), /slash/);
  assert.match(unsayable('  \n/op Mallory'), /slash/);
  assert.match(unsayable('\u0007§a/op Mallory'), /slash/);
  assert.match(unsayable('x'.repeat(257)), /257 characters.*256/);
  assert.match(unsayable(' \n '), /nothing to say/);
  assert.match(unsayable(undefined), /nothing to say/);
  assert.equal(unsayable('👋'.repeat(256)), null);
  for (const line of [...lines('👋'.repeat(256)), ...lines(`${'👋'.repeat(128)}/op Mallory`), ...lines('a\nb § torn \ud83d')]) {
    assert.ok(line.length <= 256 && !line.startsWith('/') && !/[§\n]/.test(line) && line.isWellFormed(), line);
  }
  assert.equal(lines('👋'.repeat(200)).join(''), '👋'.repeat(200));
  assert.ok(lines('x'.repeat(256), 11).every(line => line.length + 11 <= 256));
});
