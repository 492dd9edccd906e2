// A Minecraft server for tests, with players at their keyboards: `node game.cjs PORT CONTROL`. It connects to the port CONTROL and is told
// there what to do, by lines of JSON (its standard input is the server's own console). Ends when that connection does.
//
// Each line in is one wish, each line out one fact: {"listening": port}, {"heard": text, "by": name}, or {"answer": id, ...} to the wish of that id.
'use strict';

const net = require('node:net');
const readline = require('node:readline');

const flyingSquid = require('flying-squid');
const mineflayer = require('mineflayer');

const VERSION = '1.18.2';
const control = net.connect(Number(process.argv[3]), '127.0.0.1');
const say = fact => control.write(`${JSON.stringify(fact)}\n`);
const players = new Map();

const server = flyingSquid.createMCServer({
  motd: 'a test', host: '127.0.0.1', port: Number(process.argv[2]), version: VERSION, 'online-mode': false, 'max-players': 20, logging: false,
  gameMode: 0, difficulty: 1, generation: { name: 'superflat', options: { worldHeight: 80 } }, kickTimeout: 20_000, plugins: {}, modpe: false,
  'view-distance': 3, 'player-list-text': { header: { text: '' }, footer: { text: '' } }, 'everybody-op': false, 'max-entities': 100,
});
let port;
server.on('listening', found => { port = found; });
server.on('ready', () => say({ listening: port }));
server.on('error', error => console.log(error.stack));

const wishes = {
  async join({ name }) {
    const bot = mineflayer.createBot({ host: '127.0.0.1', port, username: name, version: VERSION, auth: 'offline', hideErrors: true });
    players.set(name, bot);
    bot.on('messagestr', heard => say({ heard, by: name }));
    bot.on('error', error => console.log(error.stack));
    await new Promise(done => bot.once('spawn', done));
  },
  async say({ name, text }) { players.get(name).chat(text); },
  async leave({ name }) {
    const gone = new Promise(done => players.get(name).once('end', done));
    players.get(name).quit();
    await gone;
  },
  /** Where the server itself has somebody. */
  async where({ name }) {
    const { position } = inGame(name);
    return { x: position.x, y: position.y, z: position.z };
  },
  async move({ name, x, y, z }) { inGame(name).teleport(inGame(name).position.clone().set(x, y, z)); },
  async hurt({ name, health }) { inGame(name).updateHealth(health); },
  async kick({ name, why }) { inGame(name).kick(why); },
  /** The server is gone at once, as by a crash; this process goes on until the test has its answer. */
  async crash() { setTimeout(() => process.kill(process.pid, 'SIGKILL'), 50); },
  /** Many creatures that move all the time, for so many milliseconds; answers how many movements were sent. */
  async storm({ name, creatures, ms }) {
    const { position, world } = inGame(name);
    const kind = Object.values(server.registry.mobs).find(each => each.name === 'slime').id;
    const herd = Array.from({ length: creatures }, (_, n) => server.spawnMob(kind, world, position.offset(4 + (n % 6), 0, 4 + Math.floor(n / 6))));
    const until = Date.now() + ms;
    let moved = 0;
    while (Date.now() < until) {
      for (const each of herd) {
        each.sendPosition(each.position.offset(Math.random() - 0.5, 0, Math.random() - 0.5), true, { yaw: 0, pitch: 0 });
        moved += 1;
      }
      await new Promise(done => setTimeout(done, 50));
    }
    return { moved };
  },
};

function inGame(name) {
  const found = server.players.find(player => player.username === name);
  if (!found) throw new Error(`${name} is not in the game`);
  return found;
}

control.on('error', () => process.exit(1));
readline.createInterface({ input: control }).on('line', async line => {
  const wish = JSON.parse(line);
  try {
    say({ answer: wish.id, ...(await wishes[wish.do](wish)) });
  } catch (error) {
    say({ answer: wish.id, error: String(error.stack) });
  }
}).on('close', () => process.exit(0));
