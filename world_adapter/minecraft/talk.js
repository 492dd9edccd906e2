// Who said what in a line of chat, and what may be said.
//
// Invariant: pure. A speaker is named only if the server named it in the line's own structure, or if the line begins as chat does: with a
// name in angle brackets where the server calls it chat, else with the name of somebody who is there. All else is a notice in the server's
// words. Nothing that is said can become a command.

export const LINE_CHARS = 256; // UTF-16 units in one line of chat, the game's own limit
export const NAME = /^[A-Za-z0-9_]{3,16}$/;

const MARKUP = /§[0-9a-fk-orx]?/gi;
const UNSEEN = /[\u0000-\u001f\u007f]+/g; // a server kicks whoever sends them
const BRACKETS = /^<(?<who>\w{1,16})> (?<text>.*)$/s;
const RANKED = /^(?:[[(][^\])]{1,16}[\])] ?){0,3}<?(?<who>\w{1,16})>?(?:\s?[:»>]) (?<text>.*)$/s;
const EMOTE = /^\* (?<who>\w{1,16}) (?<text>.*)$/s;
const WHISPER = [/^(?<who>\w{1,16}) whispers(?: to you)?:? (?<text>.*)$/s, /^\[(?<who>\w{1,16}) -> (?:me|you|\w{1,16})\] (?<text>.*)$/si];
const WHISPERED = [/^You whisper to (?<to>\w{1,16}):? (?<text>.*)$/s, /^\[(?:me|you) -> (?<to>\w{1,16})\] (?<text>.*)$/si];
const CAME_OR_WENT = /^\w{1,16} (?:joined|left) the game\.?$/;

/**
 * One chat message: `{ kind, who, to, text }` with kind speech, whisper, emote or notice, `who` null for the server itself; null for what
 * is told elsewhere (who came and went) or is empty.
 *
 * `line` is the message as text, `translate` and `parts` its structure where the server sent one, `sender` the name of the player whose
 * id the server gave with it, `chat` whether the server calls it chat, `online(name)` whether a player of that name is known to be there,
 * `me` our own name.
 */
export function heard({ line, translate = null, parts = [], sender = null, chat = false, online, me }) {
  const whole = plain(line);
  const [first = '', second = ''] = parts.map(plain);
  switch (translate) {
    case 'chat.type.text':
    case 'chat.type.team.text':
      return said('speech', sender ?? first, parts.length > 2 ? plain(parts[2]) : second);
    case 'chat.type.emote':
      return said('emote', sender ?? first, second);
    case 'commands.message.display.incoming':
      return { ...said('whisper', sender ?? first, second), to: me };
    case 'commands.message.display.outgoing':
      return { kind: 'whisper', who: me, to: first, text: second };
    case 'multiplayer.player.joined':
    case 'multiplayer.player.joined.renamed':
    case 'multiplayer.player.left':
      return null;
  }
  if (translate === null) {
    if (CAME_OR_WENT.test(whole)) return null;
    const emote = find([EMOTE], whole, online);
    if (emote) return said('emote', sender ?? emote.who, emote.text);
    const whisper = find(WHISPER, whole, online);
    if (whisper) return { ...said('whisper', whisper.who, whisper.text), to: me };
    const whispered = find(WHISPERED, whole, null);
    if (whispered && online(whispered.to)) return { kind: 'whisper', who: me, to: whispered.to, text: whispered.text };
    const speech = (chat && find([BRACKETS], whole, null)) || find([BRACKETS, RANKED], whole, online);
    if (speech) return said('speech', sender ?? speech.who, speech.text);
  }
  return whole.trim() === '' ? null : { kind: 'notice', who: null, to: null, text: whole };
}

/** Whether a line speaks of somebody by name. */
export function names(text, name) {
  return new RegExp(`(?<![A-Za-z0-9_])${name}(?![A-Za-z0-9_])`, 'i').test(text);
}

/** What is wrong with words that are to be said, or null. */
export function unsayable(text) {
  if (typeof text !== 'string' || clean(text) === '') return 'there is nothing to say: give a text';
  const chars = [...clean(text)].length;
  if (chars > LINE_CHARS) return `the text has ${chars} characters, Minecraft takes ${LINE_CHARS}: say it in several parts`;
  if (clean(text).startsWith('/')) return 'speech cannot begin with a slash: that would be a command';
  return null;
}

/** The words as lines that the game takes, with room for `prefix` units before each: one, or more where characters count double. */
export function lines(text, prefix = 0) {
  const room = LINE_CHARS - prefix;
  const out = [''];
  for (const char of clean(text)) {
    if (out.at(-1).length + char.length > room) out.push('');
    out[out.length - 1] += char;
  }
  // A line of its own that begins with a slash would be a command.
  return out.map(each => each.trim()).filter(each => each !== '').map(each => (prefix === 0 && each.startsWith('/') ? `\u2044${each.slice(1)}` : each));
}

function clean(text) {
  return plain(text).replace(UNSEEN, ' ').toWellFormed().replace(/\s+/g, ' ').trim();
}

function plain(text) {
  return String(text).replace(MARKUP, '');
}

function said(kind, who, text) {
  return { kind, who, to: null, text };
}

function find(patterns, line, online) {
  for (const pattern of patterns) {
    const found = pattern.exec(line)?.groups;
    if (found && (online === null || online(found.who))) return found;
  }
  return null;
}
