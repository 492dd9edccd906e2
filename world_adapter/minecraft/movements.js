// Where others are, merged to what a mind needs: of hundreds of movements a second only the newest place of each, and only near ones.
//
// Invariant: after a `flush` the last thing told of an entity in sight is less than `step` blocks from where it is, and of one out of sight
// that it is gone. A movement of an entity that was never seen to appear is ignored: its place is not known yet, only its change.

export class Movements {
  #places = new Map(); // id: { at, told } with `told` the place that was told last, null while it is not told of

  /** `sight`: blocks within which entities are told of, 0 for none. `step`: blocks that make a new place worth telling. */
  constructor({ sight = 24, step = 1 } = {}) {
    this.sight = sight;
    this.step = step;
    this.seen = 0; // movements taken in
  }

  appeared(id, at) {
    this.#places.set(id, { at: copy(at), told: this.#places.get(id)?.told ?? null });
  }

  moved(id, at) {
    const place = this.#places.get(id);
    if (place === undefined) return;
    this.seen += 1;
    place.at = copy(at);
  }

  vanished(id) {
    const place = this.#places.get(id);
    if (place === undefined) return;
    if (place.told === null) this.#places.delete(id);
    else place.at = null;
  }

  /** Everything in sight of `me` counts as told: a scene has just shown it. */
  shown(me) {
    for (const place of this.#places.values()) place.told = place.at !== null && this.#sees(me, place.at) ? place.at : null;
  }

  clear() {
    this.#places.clear();
  }

  /** What is to be told now, seen from `me`: `{ id, at }`, with `at` null for what is out of sight from now on. */
  flush(me) {
    const news = [];
    for (const [id, place] of this.#places) {
      const visible = place.at !== null && this.#sees(me, place.at);
      if (visible && (place.told === null || distance(place.told, place.at) >= this.step)) {
        place.told = place.at;
        news.push({ id, at: place.at });
      } else if (!visible && place.told !== null) {
        place.told = null;
        news.push({ id, at: null });
      }
      if (place.at === null) this.#places.delete(id);
    }
    return news;
  }

  #sees(me, at) {
    return distance(me, at) <= this.sight;
  }
}

export function distance(a, b) {
  return Math.hypot(a.x - b.x, a.y - b.y, a.z - b.z);
}

const WINDS = ['east', 'south-east', 'south', 'south-west', 'west', 'north-west', 'north', 'north-east']; // +x is east, +z is south

/** "3 blocks north" and the like. */
export function bearing(me, at) {
  const away = distance(me, at);
  if (away < 1.5) return 'right beside you';
  const flat = Math.hypot(at.x - me.x, at.z - me.z);
  const where = flat < 1 ? (at.y > me.y ? 'above' : 'below') : WINDS[(Math.round(Math.atan2(at.z - me.z, at.x - me.x) / (Math.PI / 4)) + 8) % 8];
  return `${Math.round(away)} blocks ${where}`;
}

/** Coordinates as people write them. */
export function coordinates({ x, y, z }) {
  return `(${tenth(x)}, ${tenth(y)}, ${tenth(z)})`;
}

export function plainPosition({ x, y, z }) {
  return { x: tenth(x), y: tenth(y), z: tenth(z) };
}

function tenth(value) {
  return Math.round(value * 10) / 10 + 0; // + 0: there is no minus zero on a map
}

function copy({ x, y, z }) {
  return { x, y, z };
}
