import { Code, ConnectError } from "@connectrpc/connect";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { followStream } from "./stream";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

// streams returns one list of messages after the other, each with its own ending.
function streams(...all: { messages: string[]; end?: ConnectError }[]) {
  const seen: string[] = [];
  const stop = new AbortController();
  let opened = 0;
  const following = followStream<string>(
    {
      async *open(signal) {
        const next = all[opened++];
        for (const message of next?.messages ?? []) yield message;
        if (next?.end) throw next.end;
        if (!next) await new Promise((resolve) => signal.addEventListener("abort", resolve));
      },
      take(message) {
        seen.push(message);
        return message === "deleted";
      },
      turn: (state) => void seen.push(`(${state})`),
    },
    stop.signal,
  );
  return { seen, stop, following, opened: () => opened };
}

describe("followStream", () => {
  test("a stream that ends in good order is opened again at once", async () => {
    const { seen, stop, following } = streams({ messages: ["one"] });
    await vi.advanceTimersByTimeAsync(0);
    stop.abort();
    await following;
    expect(seen).toEqual(["one"]);
  });

  test("a failure is told, and tried again after a pause", async () => {
    const away = new ConnectError("away", Code.Unavailable);
    const { seen, stop, following, opened } = streams({ messages: ["one"], end: away }, { messages: ["two"] });
    await vi.advanceTimersByTimeAsync(0);
    expect(seen).toEqual(["one", "(lost)"]);
    expect(opened()).toBe(1);
    await vi.advanceTimersByTimeAsync(600);
    expect(seen.slice(0, 3)).toEqual(["one", "(lost)", "two"]);
    stop.abort();
    await following;
  });

  test.each([
    ["gone", new ConnectError("no such", Code.NotFound)],
    ["denied", new ConnectError("may not", Code.PermissionDenied)],
  ])("what is %s is not asked for again", async (state, end) => {
    const { seen, following, opened } = streams({ messages: [], end });
    await following;
    expect(seen).toEqual([`(${state})`]);
    expect(opened()).toBe(1);
  });

  test("a message can be the last", async () => {
    const { seen, following } = streams({ messages: ["one", "deleted", "more"] });
    await following;
    expect(seen).toEqual(["one", "deleted", "(gone)"]);
  });

  test("a stream without a word is opened again", async () => {
    const { stop, following, opened } = streams();
    await vi.advanceTimersByTimeAsync(59_000);
    expect(opened()).toBe(1);
    await vi.advanceTimersByTimeAsync(2_000);
    expect(opened()).toBe(2);
    stop.abort();
    await following;
  });

  test("a page that nobody sees follows nothing", async () => {
    const page = Object.assign(new EventTarget(), { visibilityState: "visible" });
    vi.stubGlobal("document", page);
    const show = (state: string) => {
      page.visibilityState = state;
      page.dispatchEvent(new Event("visibilitychange"));
    };
    const { seen, stop, following, opened } = streams();
    await vi.advanceTimersByTimeAsync(0);
    show("hidden");
    await vi.advanceTimersByTimeAsync(5_000);
    show("visible");
    await vi.advanceTimersByTimeAsync(11_000);
    expect(opened()).toBe(1);
    show("hidden");
    await vi.advanceTimersByTimeAsync(300_000);
    expect(opened()).toBe(1);
    show("visible");
    await vi.advanceTimersByTimeAsync(0);
    expect(opened()).toBe(2);
    expect(seen).toEqual([]);
    stop.abort();
    await following;
    vi.unstubAllGlobals();
  });

  test("a pause can be ended", async () => {
    let wake: () => void = () => {};
    let opened = 0;
    const stop = new AbortController();
    const following = followStream<string>(
      {
        // biome-ignore lint/correctness/useYield: it fails before there is anything.
        async *open() {
          opened++;
          throw new ConnectError("away", Code.Unavailable);
        },
        take: () => false,
        turn: () => {},
        waits: (end) => {
          wake = end;
        },
      },
      stop.signal,
    );
    await vi.advanceTimersByTimeAsync(0);
    expect(opened).toBe(1);
    wake();
    await vi.advanceTimersByTimeAsync(0);
    expect(opened).toBe(2);
    stop.abort();
    await following;
  });
});
