import { expect, test, vi } from "vitest";

// The page tries lost connections again when the browser is online.
vi.stubGlobal("window", new EventTarget());
const frames: FrameRequestCallback[] = [];
vi.stubGlobal("requestAnimationFrame", (draw: FrameRequestCallback) => frames.push(draw));
const { LiveCollection } = await import("./live");

type Message = { put: string[] } | { synced: true };

test("the first items are drawn before more is read, and the rest is shown together", async () => {
  const { readable, writable } = new TransformStream<Message, Message>();
  const writer = writable.getWriter();
  const collection = new LiveCollection<Message, string>({
    open: () => readable as unknown as AsyncIterable<Message>,
    read: (message) => message,
    keyOf: (item) => item,
  });
  const shown: string[] = [];
  const end = collection.subscribe(() => {
    const { items, synced } = collection.snapshot();
    shown.push(`${[...items.keys()].join(" ")}${synced ? ", all" : ""}`);
  });
  await writer.write({ put: ["a", "b"] });
  await vi.waitFor(() => expect(frames).toHaveLength(1));
  expect(shown).toEqual(["a b"]);
  frames.pop()?.(0);
  await writer.write({ put: ["c"] });
  await writer.write({ put: ["d"] });
  await writer.write({ synced: true });
  await vi.waitFor(() => expect(shown).toEqual(["a b", "a b c d, all"]));
  end();
});
