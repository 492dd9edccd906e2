// What is kept for one NPC so that nothing is lost between the game and its agent's disk.
//
// Invariant: numbers rise by one from 1; what is not acknowledged is kept, at least the newest `keep`, and what had to go is counted as lost
// at the next `begin`.

export const MIN_KEEP = 1_000; // the protocol's promise

export class Replay {
  #keep;
  #kept = [];
  #base = 1; // the number of the first that is kept, or would be

  constructor({ keep = 10_000 } = {}) {
    if (keep < MIN_KEEP) throw new RangeError(`the protocol promises to keep the last ${MIN_KEEP} observations, ${keep} is less`);
    this.#keep = keep;
    this.newest = 0; // the number given last
    this.acked = 0; // everything up to this number is safe with the agent
  }

  /** How many wait for their acknowledgement. */
  get waiting() {
    return this.newest - this.acked;
  }

  /** Keeps one observation under the next number, and answers that. */
  add(observation) {
    this.newest += 1;
    this.#kept.push({ seq: this.newest, ...observation });
    // A tenth of slack, so that dropping the oldest is one cut in many additions.
    if (this.#kept.length > this.#keep * 1.1) this.#drop(this.#kept.length - this.#keep);
    return this.newest;
  }

  /** Everything up to `seq` is safe; numbers that were never given are ignored. */
  ack(seq) {
    if (seq <= this.acked || seq > this.newest) return;
    this.acked = seq;
    this.#drop(seq + 1 - this.#base);
  }

  /** An agent attaches that has everything up to `seq` (null: it knows of nothing): the next number, and how many are lost. */
  begin(seq) {
    if (seq === null) return { next: this.#base, lost: this.#base - 1 - this.acked };
    const had = Math.min(seq, this.newest);
    this.ack(had);
    return { next: Math.max(this.#base, had + 1), lost: Math.max(this.#base - had - 1, 0) };
  }

  /** The observations after `seq`, at most so many and so large together, but at least one; null if the next is gone. */
  after(seq, { items, chars }) {
    const start = seq + 1 - this.#base;
    if (start < 0) return null;
    const end = Math.min(this.#kept.length, start + items);
    let stop = start;
    for (let room = chars; stop < end && (stop === start || room >= 0); stop += 1) room -= this.#kept[stop].text.length + 64;
    return this.#kept.slice(start, stop);
  }

  #drop(count) {
    if (count <= 0) return;
    this.#kept.splice(0, count);
    this.#base += count;
  }
}
