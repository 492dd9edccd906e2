// One NPC in this world, whether its agent is attached or not: what it was told, what it did, its body.
//
// Invariant: an action ends exactly once; what the body does for an action stops before the action's end is told; observations are numbered
// here and nowhere else.

import { ACTIONS, SPECS } from './actions.js';
import { Body } from './body.js';
import { ActFailed } from './failure.js';
import { Ledger } from './ledger.js';
import { Replay } from './replay.js';

const RUNNING = 50; // actions of one NPC at a time
const TEXT_CHARS = 4_096; // of one observation; a server may send chat of a quarter of a megabyte a line

export class Life {
  constructor({ npc, session, options, isNpc, log }) {
    this.npc = npc;
    this.session = session;
    this.replay = new Replay();
    this.ledger = new Ledger();
    this.guest = null;
    this.tasks = new Map(); // id: AbortController of an action that runs
    this.body = new Body({ life: this, options, isNpc, log });
    this.linger = null; // the timer after which the body leaves the game
    this.log = log;
  }

  /** Tells the NPC one thing. `fields`: key, prio, from, to, data, self as in SPEC.md. */
  observe(kind, text, fields = {}) {
    const wt = this.body.worldTime;
    const whole = text.length <= TEXT_CHARS ? text : `${text.slice(0, TEXT_CHARS).toWellFormed()}[… ${text.length - TEXT_CHARS} characters cut …]`;
    this.replay.add({ t: Date.now() / 1000, kind, text: whole, ...(wt === null ? {} : { wt }), ...fields });
    this.guest?.pump();
  }

  greeting() {
    return { op: 'actions', version: '1', actions: SPECS };
  }

  act({ id, name, args }) {
    if (!this.ledger.begin(id)) {
      const known = this.ledger.answer(id);
      // One that runs was answered with `accepted` already, if it is of that sort.
      if (known.state !== 'accepted' || ACTIONS.get(name)?.spec.kind === 'ongoing') this.#tell(known);
      return;
    }
    const action = ACTIONS.get(name);
    if (action === undefined) return this.#fail(id, 'unknown_action', `there is no action of that name here; there are: ${[...ACTIONS.keys()].join(', ')}`);
    if (this.tasks.size >= RUNNING) return this.#fail(id, 'busy', `${RUNNING} actions are running already`);
    if (this.body.bot === null) return this.#fail(id, 'not_in_game', `you are not in the game: ${this.body.why}`);
    const task = new AbortController();
    this.tasks.set(id, task);
    if (action.spec.kind === 'ongoing') this.#tell({ id, state: 'accepted' });
    void this.#run(id, action, args, task);
  }

  cancel(id) {
    this.tasks.get(id)?.abort('cancelled');
  }

  /** The body is gone: what it was doing has failed. */
  stopAll(why) {
    for (const task of this.tasks.values()) task.abort(new ActFailed('not_in_game', why));
  }

  async #run(id, action, args, task) {
    const progress = (text, fraction) => this.guest?.say({ op: 'act_progress', id, text, ...(fraction === undefined ? {} : { fraction }) });
    let result;
    try {
      const { text, data } = await action.run({ life: this, bot: this.body.bot, signal: task.signal, progress, task }, args);
      result = { id, state: 'done', text, ...(data === undefined ? {} : { data }) };
    } catch (error) {
      result = this.#failure(id, action, error, task);
    }
    this.tasks.delete(id);
    if (this.ledger.finish(result)) this.#tell(result);
  }

  #failure(id, action, error, task) {
    if (task.signal.aborted && !(task.signal.reason instanceof ActFailed)) {
      const where = this.body.whereabouts;
      return { id, state: 'cancelled', text: `Stopped: ${task.signal.reason}.${where ? ` You are at ${where}.` : ''}` };
    }
    const reason = task.signal.aborted ? task.signal.reason : error;
    if (reason instanceof ActFailed) return failed(id, reason.code, reason.message);
    // The client library throws for what the game makes of our wishes as well as for its own faults; the NPC is told its words.
    this.log(`${action.spec.name} failed: ${reason?.message ?? reason}`);
    return failed(id, 'game', `the game did not do it: ${String(reason?.message ?? reason).slice(0, 200)}`);
  }

  #fail(id, code, message) {
    const result = failed(id, code, message);
    this.ledger.finish(result);
    this.#tell(result);
  }

  #tell(result) {
    this.guest?.say({ op: 'act_result', ...result });
  }
}

function failed(id, code, message) {
  return { id, state: 'failed', text: `${message[0].toUpperCase()}${message.slice(1)}.`, error: { code, message } };
}
