// What became of each action: the memory that makes an action id run at most once.
//
// Invariant: `begin` says true once per id; a final state is set once and stands; what still runs is never forgotten.

const FULL = 4_096; // results kept with their text; older ones keep only their state
const KNOWN = 200_000; // ids remembered per NPC

export class Ledger {
  #results = new Map(); // id: the result as it goes over the wire; in order of arrival
  #slim = new Set(); // ids in order of their end, whose result is still whole

  /** Whether this id is new, and may run now. */
  begin(id) {
    if (this.#results.has(id)) return false;
    this.#results.set(id, { id, state: 'accepted' });
    if (this.#results.size > KNOWN) this.#forget();
    return true;
  }

  /** Sets the final result; false if there was one already, or the id never began. */
  finish(result) {
    if (this.#results.get(result.id)?.state !== 'accepted') return false;
    this.#results.set(result.id, result);
    this.#slim.add(result.id);
    if (this.#slim.size > FULL) {
      const [oldest] = this.#slim;
      this.#slim.delete(oldest);
      const known = this.#results.get(oldest);
      if (known) this.#results.set(oldest, { id: oldest, state: known.state });
    }
    return true;
  }

  /** What is known of an id; `unknown` if it never came. */
  answer(id) {
    return this.#results.get(id) ?? { id, state: 'unknown' };
  }

  #forget() {
    for (const [id, result] of this.#results) {
      if (result.state !== 'accepted') {
        this.#results.delete(id);
        this.#slim.delete(id);
        return;
      }
    }
  }
}
