// W3, W4: an action id runs at most once and ends exactly once.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Ledger } from '../ledger.js';

test('an id begins once, whatever became of it', () => {
  const ledger = new Ledger();
  assert.equal(ledger.answer('a').state, 'unknown');
  assert.equal(ledger.begin('a'), true);
  assert.equal(ledger.begin('a'), false);
  assert.deepEqual(ledger.answer('a'), { id: 'a', state: 'accepted' });
  assert.equal(ledger.finish({ id: 'a', state: 'cancelled', text: 'Stopped.' }), true);
  assert.equal(ledger.begin('a'), false);
});

test('the first final state stands', () => {
  const ledger = new Ledger();
  ledger.begin('a');
  ledger.finish({ id: 'a', state: 'cancelled', text: 'Stopped.' });
  assert.equal(ledger.finish({ id: 'a', state: 'done', text: 'You have arrived.' }), false);
  assert.equal(ledger.finish({ id: 'never begun', state: 'done' }), false);
  assert.equal(ledger.answer('a').state, 'cancelled');
  assert.equal(ledger.answer('never begun').state, 'unknown');
});

test('results out of order belong to their ids', () => {
  const ledger = new Ledger();
  for (const id of ['a', 'b', 'c']) ledger.begin(id);
  for (const id of ['c', 'a']) ledger.finish({ id, state: 'done', text: id });
  assert.deepEqual(['a', 'b', 'c'].map(id => ledger.answer(id).state), ['done', 'accepted', 'done']);
});

test('after very many actions old ids still do not run again', () => {
  const ledger = new Ledger();
  ledger.begin('runs on');
  for (let n = 0; n < 10_000; n += 1) {
    ledger.begin(`id ${n}`);
    ledger.finish({ id: `id ${n}`, state: 'done', text: 'a long text' });
  }
  assert.equal(ledger.begin('id 0'), false);
  assert.deepEqual(ledger.answer('id 0'), { id: 'id 0', state: 'done' });
  assert.equal(ledger.answer('id 9999').text, 'a long text');
  assert.equal(ledger.answer('runs on').state, 'accepted');
});
