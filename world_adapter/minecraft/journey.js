// Walks: one at a time for a body, judged by where it stands in the end.
//
// Invariant: a walk is done only if the body is where it should be; a newer walk ends the older as cancelled; when a walk has ended, however
// it did, the body stands still.

import pathfinding from 'mineflayer-pathfinder';

import { ActFailed, pause, unless } from './failure.js';
import { coordinates, distance, plainPosition } from './movements.js';

const { GoalFollow, GoalNear, GoalNearXZ } = pathfinding.goals;

const STUCK_MS = 12_000; // without getting anywhere
const SETTLE_MS = 300; // the server may still put the body back
const TRIES = 3; // after being put back
const LOST_MS = 10_000; // a follower waits so long for who has gone out of sight
const PROGRESS_MS = 5_000;
const LONGEST_MS = 600_000;

const walking = new WeakMap(); // bot: the task whose walk it is on

/** Ends the walk that a body is on, if any; whether there was one. */
export function halt(bot, why) {
  const task = walking.get(bot);
  task?.abort(why);
  return task !== undefined;
}

/** Walks to within `within` blocks of a place; without `y` at whatever height the ground has there. */
export async function walk(context, target, within) {
  const { bot } = context;
  const goal = target.y === undefined ? new GoalNearXZ(target.x, target.z, within) : new GoalNear(target.x, target.y, target.z, within);
  const there = () => isThere(bot.entity.position, target, within);
  const named = target.y === undefined ? `x ${target.x}, z ${target.z}` : coordinates(target);
  const whole = remaining(bot.entity.position, target);
  const limit = Math.min(LONGEST_MS, 20_000 + whole * 1_500);
  await travel(context, async signal => {
    for (let attempt = 0; !there(); attempt += 1) {
      if (attempt === TRIES) throw blocked(bot, named, 'you are kept from it');
      await watched(context, signal, { goal, named, limit, far: () => remaining(bot.entity.position, target), whole });
      await pause(signal, SETTLE_MS);
    }
  });
  const at = bot.entity.position;
  return { text: `You have arrived: you are at ${coordinates(at)}.`, data: { position: plainPosition(at) } };
}

/** Stays within `within` blocks of a creature for so many seconds. `find` answers its entity now, or null. */
export async function follow(context, { find, name, within, seconds }) {
  const { bot } = context;
  await travel(context, async signal => {
    const until = performance.now() + seconds * 1_000;
    let goal = null;
    let seenAt = performance.now();
    while (performance.now() < until) {
      const entity = find();
      if (entity !== null) seenAt = performance.now();
      else if (performance.now() - seenAt > LOST_MS) {
        throw new ActFailed('lost', `${name} is out of sight; you are at ${coordinates(bot.entity.position)}`);
      }
      if (entity !== null && goal !== entity) bot.pathfinder.setGoal(new GoalFollow(entity, within), true);
      goal = entity;
      await pause(signal, 500);
    }
  });
  const at = bot.entity.position;
  return { text: `You have followed ${name} for ${seconds} seconds and are at ${coordinates(at)}.`, data: { position: plainPosition(at) } };
}

async function travel({ bot, signal, task }, journey) {
  halt(bot, 'you set out for something else');
  walking.set(bot, task);
  try {
    return await journey(signal);
  } finally {
    if (walking.get(bot) === task) {
      walking.delete(bot);
      standStill(bot);
    }
  }
}

function standStill(bot) {
  try {
    bot.pathfinder.setGoal(null);
    bot.clearControlStates();
  } catch {
    // The body may have left the world; then it walks nowhere.
  }
}

/** One run of the pathfinder, ended by arrival, by its own verdict, or by getting nowhere. */
async function watched({ bot, progress }, signal, { goal, named, limit, far, whole }) {
  const begun = performance.now();
  let mark = bot.entity.position.clone();
  let markAt = begun;
  let toldAt = begun;
  let fail;
  const nowhere = new Promise((_, reject) => { fail = reject; });
  const watch = setInterval(() => {
    const now = performance.now();
    const at = bot.entity.position;
    if (distance(at, mark) >= 0.7) [mark, markAt] = [at.clone(), now];
    if (now - markAt > STUCK_MS) fail(blocked(bot, named, 'you get no further'));
    else if (now - begun > limit) fail(blocked(bot, named, 'it takes too long'));
    else if (now - toldAt > PROGRESS_MS) {
      toldAt = now;
      progress(`On the way, at ${coordinates(at)}.`, whole > 0 ? Math.min(Math.max(1 - far() / whole, 0), 1) : undefined);
    }
  }, 500);
  try {
    await unless(signal, Promise.race([bot.pathfinder.goto(goal), nowhere]));
  } catch (error) {
    if (error?.name === 'NoPath') throw blocked(bot, named, 'there is no way');
    if (error?.name === 'Timeout') throw blocked(bot, named, 'no way was found in time');
    throw error;
  } finally {
    clearInterval(watch);
  }
}

function blocked(bot, named, why) {
  return new ActFailed('blocked', `you cannot get to ${named}: ${why}; you are at ${coordinates(bot.entity.position)}`);
}

function isThere(at, target, within) {
  const centre = { x: Math.floor(target.x) + 0.5, z: Math.floor(target.z) + 0.5 };
  const flat = Math.hypot(at.x - centre.x, at.z - centre.z);
  return flat <= within + 0.75 && (target.y === undefined || Math.abs(at.y - target.y) <= within + 0.75);
}

function remaining(at, target) {
  return Math.hypot(at.x - target.x, target.y === undefined ? 0 : at.y - target.y, at.z - target.z);
}
