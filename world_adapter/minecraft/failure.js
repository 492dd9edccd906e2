/** An action came to nothing: the message is told to the NPC, `code` to its code. */
export class ActFailed extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/** Waits for a promise unless the signal fires first: then it throws the signal's reason, whatever that is. */
export async function unless(signal, promise) {
  let stop;
  const stopped = new Promise((_, reject) => {
    stop = () => reject(signal.reason);
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
  });
  try {
    return await Promise.race([promise, stopped]);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

/** Waits so many milliseconds, or throws the signal's reason. */
export async function pause(signal, ms) {
  let timer;
  try {
    await unless(signal, new Promise(done => { timer = setTimeout(done, ms); }));
  } finally {
    clearTimeout(timer);
  }
}
