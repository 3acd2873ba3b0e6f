import { useSyncExternalStore } from "react";
import { explain } from "../api/errors";
import { Button } from "./button";
import { CloseIcon } from "./icons";
import type { Tone } from "./status";

interface Message {
  id: number;
  tone: Tone;
  text: string;
}

let messages: Message[] = [];
let last = 0;
const watchers = new Set<() => void>();

function set(next: Message[]): void {
  messages = next;
  for (const watcher of watchers) watcher();
}

function dismiss(id: number): void {
  set(messages.filter((message) => message.id !== id));
}

/** toast shows a notification. Errors stay until they are dismissed. */
export function toast(text: string, tone: Tone = "good"): void {
  const id = ++last;
  set([...messages.slice(-3), { id, tone, text }]);
  if (tone !== "bad") setTimeout(() => dismiss(id), 6_000);
}

/** toastError shows an error as a notification. */
export function toastError(error: unknown): void {
  toast(explain(error), "bad");
}

export function Toasts() {
  const shown = useSyncExternalStore(
    (watcher) => {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
    () => messages,
  );
  return (
    <section className="toasts" aria-live="polite" aria-label="Notifications">
      {shown.map((message) => (
        <div key={message.id} className={`toast tone-${message.tone}`}>
          <span>{message.text}</span>
          <Button variant="ghost" small onPress={() => dismiss(message.id)} aria-label="Dismiss">
            <CloseIcon />
          </Button>
        </div>
      ))}
    </section>
  );
}
