#!/usr/bin/env node
// Starts a bridge from arguments and environment, ends it on SIGTERM or SIGINT.
//
// Invariant: no secret is taken from, or shown in, the arguments; one fault of the client library costs connections, a storm of them the process.

import { parseArgs } from 'node:util';

import { Bridge } from './bridge.js';

const USAGE = `Usage: node main.js [--minecraft HOST:PORT] [--listen PORT] [options]

  --minecraft HOST:PORT  the game's server (127.0.0.1:25565)
  --listen PORT          where agents attach, on 127.0.0.1; 0 takes any free port (8765)
  --version VERSION      the server's version, such as 1.18.2; asked of the server if left out
  --world ID             the world's name for agents (minecraft-HOST-PORT)
  --npcs NAME,NAME       the names that may attach; any if left out
  --sight BLOCKS         how near others must be for their movements to be told; 0 tells of none (24)
  --linger SECONDS       how long a body stays in the game without its agent (120)
  --heartbeat SECONDS    (30)

Environment: MINECRAFT_BRIDGE_TOKEN, what agents must bear (none: whoever is on this machine may attach);
MINECRAFT_AUTH, offline or microsoft; MINECRAFT_PROFILES, the folder that keeps a Microsoft login.`;

const FAULTS = { most: 20, withinMs: 60_000 };

function refuse(sentence) {
  process.stderr.write(`${sentence}\n`);
  process.exit(2);
}

function number(text, name, low, high) {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value) || value < low || value > high) refuse(`--${name} must be a number from ${low} to ${high}.`);
  return value;
}

function options() {
  const text = fallback => ({ type: 'string', default: fallback });
  let values;
  try {
    ({ values } = parseArgs({
      options: {
        minecraft: text('127.0.0.1:25565'), listen: text('8765'), version: { type: 'string' }, world: { type: 'string' }, npcs: { type: 'string' },
        sight: text('24'), linger: text('120'), heartbeat: text('30'), help: { type: 'boolean', short: 'h' },
      },
    }));
  } catch (error) {
    refuse(`${error.message.split('\n')[0]}\n\n${USAGE}`);
  }
  if (values.help) {
    process.stdout.write(`${USAGE}\n`);
    process.exit(0);
  }
  const [, host, port] = /^\[?([^\]]+?)\]?:(\d{1,5})$/.exec(values.minecraft) ?? refuse('--minecraft must be HOST:PORT, such as 127.0.0.1:25565.');
  const auth = process.env.MINECRAFT_AUTH ?? 'offline';
  if (!['offline', 'microsoft'].includes(auth)) refuse('MINECRAFT_AUTH must be offline or microsoft.');
  return {
    host, port: number(port, 'minecraft', 1, 65_535), version: values.version, auth, profiles: process.env.MINECRAFT_PROFILES,
    world: (values.world ?? `minecraft-${host}-${port}`).replace(/["'\\<>\s]/g, '_').slice(0, 128),
    npcs: values.npcs === undefined ? null : new Set(values.npcs.split(',').map(name => name.trim())),
    listen: number(values.listen, 'listen', 0, 65_535), sight: number(values.sight, 'sight', 0, 256), linger: number(values.linger, 'linger', 0, 86_400),
    heartbeat: number(values.heartbeat, 'heartbeat', 1, 3_600),
  };
}

const settings = options();
const token = process.env.MINECRAFT_BRIDGE_TOKEN ?? '';
delete process.env.MINECRAFT_BRIDGE_TOKEN; // nothing that we start has a use for it
const log = (npc, words) => process.stderr.write(`${new Date().toISOString()} ${npc}: ${String(words).replace(/[\u0000-\u001f\u007f-\u009f]/g, ' ')}\n`);
const bridge = new Bridge({ options: settings, token, log });

const faults = [];
function broke(error) {
  const now = Date.now();
  log('bridge', `fault: ${error?.stack?.split('\n').slice(0, 3).join(' |') ?? error}`);
  while (faults.length > 0 && now - faults[0] > FAULTS.withinMs) faults.shift();
  if (faults.push(now) > FAULTS.most) process.exit(1);
  bridge.dropBodies();
}
process.on('uncaughtException', broke);
process.on('unhandledRejection', broke);

for (const signal of ['SIGTERM', 'SIGINT']) {
  process.once(signal, async () => {
    await bridge.close();
    setTimeout(() => process.exit(0), 500); // the goodbyes are on their way
  });
}

try {
  const port = await bridge.listen(settings.listen);
  process.stdout.write(`listening on ws://127.0.0.1:${port} for ${settings.host}:${settings.port}\n`);
} catch (error) {
  refuse(`Port ${settings.listen} on 127.0.0.1 cannot be had (${error.code}): choose another with --listen.`);
}
