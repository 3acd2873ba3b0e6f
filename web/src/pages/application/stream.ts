// How a stream of a runtime is followed: opened again when it ends, with longer and
// longer pauses while it fails, until there is nothing to ask for.

import { Code, ConnectError } from "@connectrpc/connect";

export type FollowState = "connecting" | "live" | "lost" | "gone" | "denied";

export interface Followed<M> {
  open(signal: AbortSignal): AsyncIterable<M>;
  /** take returns true when nothing can follow: what the stream is about is gone. */
  take(message: M): boolean;
  /** turn is told of each state but live, which take sees first. */
  turn(state: "lost" | "gone" | "denied", error: ConnectError | null): void;
}

// A stream without a word for this long may be dead without anybody knowing.
const silence = 60_000;
const slowest = 10_000;

/** followStream follows until signal says that nobody looks any more. */
export async function followStream<M>(followed: Followed<M>, signal: AbortSignal): Promise<void> {
  for (let tries = 0; !signal.aborted; tries++) {
    const began = Date.now();
    const end = await once(followed, signal);
    if (signal.aborted || end === "final") return;
    if (Date.now() - began > slowest) tries = 0;
    // A stream that ended in good order is opened again at once.
    if (end === null && tries === 0) continue;
    followed.turn("lost", end);
    await pause(Math.min(slowest, 500 * 2 ** Math.min(tries, 5)) * (0.5 + Math.random() / 2), signal);
  }
}

// once follows one stream to its end: null is a good one, "final" one after which
// there is nothing to ask for.
async function once<M>(followed: Followed<M>, signal: AbortSignal): Promise<ConnectError | null | "final"> {
  const stream = new AbortController();
  const abort = () => stream.abort();
  signal.addEventListener("abort", abort);
  let quiet = setTimeout(abort, silence);
  try {
    for await (const message of followed.open(stream.signal)) {
      clearTimeout(quiet);
      quiet = setTimeout(abort, silence);
      if (signal.aborted) return null;
      if (followed.take(message)) {
        followed.turn("gone", null);
        return "final";
      }
    }
    return null;
  } catch (error) {
    const failure = ConnectError.from(error);
    if (signal.aborted) return null;
    switch (failure.code) {
      case Code.Canceled:
      case Code.Aborted:
        // It was quiet for long, or is as long as a stream may be.
        return null;
      case Code.NotFound:
        followed.turn("gone", failure);
        return "final";
      case Code.PermissionDenied:
        followed.turn("denied", failure);
        return "final";
      default:
        return failure;
    }
  } finally {
    clearTimeout(quiet);
    signal.removeEventListener("abort", abort);
  }
}

function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    signal.addEventListener("abort", done);
  });
}
