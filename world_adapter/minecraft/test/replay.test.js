// W2, W3: nothing is lost between the game and the agent's disk, and what had to go is counted.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Replay } from '../replay.js';

const ALL = { items: 1_000_000, chars: 1_000_000_000 };

function filled(count) {
  const replay = new Replay({ keep: 1_000 });
  for (let n = 1; n <= count; n += 1) assert.equal(replay.add({ t: 0, kind: 'notice', text: `number ${n}` }), n);
  return replay;
}

const seqs = batch => batch.map(each => each.seq);

test('numbers rise by one and what is not acknowledged comes again', () => {
  const replay = filled(5);
  assert.deepEqual(seqs(replay.after(0, ALL)), [1, 2, 3, 4, 5]);
  replay.ack(2);
  assert.deepEqual(replay.begin(2), { next: 3, lost: 0 });
  assert.deepEqual(seqs(replay.after(2, ALL)), [3, 4, 5]);
  assert.deepEqual(replay.begin(null), { next: 3, lost: 0 });
});

test('a resume acknowledges, and never more than was given', () => {
  const replay = filled(5);
  assert.deepEqual(replay.begin(4), { next: 5, lost: 0 });
  assert.equal(replay.waiting, 1);
  assert.deepEqual(replay.begin(900), { next: 6, lost: 0 });
  replay.add({ t: 0, kind: 'notice', text: 'later' });
  assert.deepEqual(seqs(replay.after(5, ALL)), [6]);
  replay.ack(77);
  assert.equal(replay.acked, 5);
});

test('at least the newest 1,000 are kept, and the gap is named', () => {
  const replay = filled(5_000);
  const { next, lost } = replay.begin(10);
  assert.ok(5_000 - next + 1 >= 1_000);
  assert.equal(lost, next - 11);
  assert.equal(replay.after(10, ALL), null);
  assert.equal(replay.after(next - 1, ALL).at(-1).text, 'number 5000');
  assert.throws(() => new Replay({ keep: 999 }), RangeError);
});

test('a batch is bounded in number and size but never empty', () => {
  const replay = new Replay();
  for (let n = 0; n < 10; n += 1) replay.add({ t: 0, kind: 'notice', text: 'x'.repeat(1_000) });
  assert.equal(replay.after(0, { items: 3, chars: 1_000_000 }).length, 3);
  assert.equal(replay.after(0, { items: 100, chars: 10 }).length, 1);
});
