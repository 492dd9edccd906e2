// W2: hundreds of movements a second become a few words, and the newest place of each is never wrong by a block.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Movements, bearing, distance } from '../movements.js';

const ME = { x: 0, y: 0, z: 0 };

test('only the last place of each is told', () => {
  const movements = new Movements({ sight: 24, step: 1 });
  for (const id of [1, 2]) movements.appeared(id, { x: 5, y: 0, z: 5 });
  for (let n = 0; n < 500; n += 1) movements.moved(1 + (n % 2), { x: 5 + n / 100, y: 0, z: 5 });
  assert.deepEqual(movements.flush(ME), [{ id: 1, at: { x: 9.98, y: 0, z: 5 } }, { id: 2, at: { x: 9.99, y: 0, z: 5 } }]);
  assert.deepEqual(movements.flush(ME), []);
});

test('what moves before it appeared has no place yet', () => {
  const movements = new Movements();
  movements.moved(7, { x: 0, y: 0, z: 0 });
  movements.moved(7, { x: 0.2, y: 0, z: 0.1 });
  assert.deepEqual(movements.flush(ME), []);
  movements.appeared(7, { x: 8, y: 0, z: 8 });
  assert.deepEqual(movements.flush(ME), [{ id: 7, at: { x: 8, y: 0, z: 8 } }]);
});

test('going out of sight is told once, and only of those that were told of', () => {
  const movements = new Movements({ sight: 10 });
  movements.appeared(1, { x: 5, y: 0, z: 0 });
  movements.appeared(2, { x: 50, y: 0, z: 0 });
  assert.deepEqual(movements.flush(ME).map(each => each.id), [1]);
  movements.vanished(1);
  movements.vanished(2);
  assert.deepEqual(movements.flush(ME), [{ id: 1, at: null }]);
  assert.deepEqual(movements.flush(ME), []);
});

test('a step of less than the threshold is no news, many of them are', () => {
  const movements = new Movements({ step: 1 });
  movements.appeared(1, { x: 5, y: 0, z: 0 });
  movements.shown(ME);
  assert.deepEqual(movements.flush(ME), []);
  let told = 0;
  for (let n = 1; n <= 20; n += 1) {
    movements.moved(1, { x: 5 + n / 10, y: 0, z: 0 });
    told += movements.flush(ME).length;
  }
  assert.equal(told, 2);
});

test('a game in which everything runs: the last that was told of each is where it is', () => {
  const movements = new Movements({ sight: 40, step: 1 });
  const at = new Map();
  const told = new Map();
  let seed = 1;
  const random = () => { seed = (seed * 48_271) % 2_147_483_647; return seed / 2_147_483_647; };
  let count = 0;
  for (let id = 0; id < 46; id += 1) {
    at.set(id, { x: random() * 40 - 20, y: 0, z: random() * 40 - 20 });
    movements.appeared(id, at.get(id));
  }
  for (let tick = 0; tick < 20; tick += 1) {
    for (let n = 0; n < 245; n += 1) {
      const id = Math.floor(random() * 46);
      const from = at.get(id);
      at.set(id, { x: from.x + random() - 0.5, y: 0, z: from.z + random() - 0.5 });
      movements.moved(id, at.get(id));
    }
    for (const news of movements.flush(ME)) {
      told.set(news.id, news.at);
      count += 1;
    }
    for (const [id, place] of at) {
      if (distance(ME, place) <= 40) assert.ok(distance(place, told.get(id)) < 1);
      else assert.ok((told.get(id) ?? null) === null);
    }
  }
  assert.equal(movements.seen, 4_900);
  assert.ok(count < 4_900 / 5, `${count} observations of 4,900 movements`);
});

test('directions are those of the map', () => {
  assert.equal(bearing(ME, { x: 0, y: 0, z: -5 }), '5 blocks north');
  assert.equal(bearing(ME, { x: 5, y: 0, z: 0 }), '5 blocks east');
  assert.equal(bearing(ME, { x: -5, y: 0, z: 5 }), '7 blocks south-west');
  assert.equal(bearing(ME, { x: 0, y: 9, z: 0 }), '9 blocks above');
  assert.equal(bearing(ME, { x: 0.5, y: 0, z: 0 }), 'right beside you');
});
