import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";
import { useSyncExternalStore } from "react";

const units: [Intl.RelativeTimeFormatUnit, number][] = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
  ["second", 1],
];
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

/** ago formats a relative time in the past or the future. */
export function ago(at: Date, now: number): string {
  const seconds = Math.round((at.getTime() - now) / 1_000);
  if (Math.abs(seconds) < 5) return "just now";
  for (const [unit, size] of units) {
    if (Math.abs(seconds) >= size) return relative.format(Math.trunc(seconds / size), unit);
  }
  return "just now";
}

// One clock for all times on the page.
let now = Date.now();
const watchers = new Set<() => void>();
let ticking: ReturnType<typeof setInterval> | undefined;

function follow(watcher: () => void): () => void {
  watchers.add(watcher);
  ticking ??= setInterval(() => {
    now = Date.now();
    for (const each of watchers) each();
  }, 1_000);
  return () => {
    watchers.delete(watcher);
    if (watchers.size > 0) return;
    clearInterval(ticking);
    ticking = undefined;
  };
}

/** useNow is the time, each second. */
export function useNow(): number {
  return useSyncExternalStore(follow, () => now);
}

/** Time shows how long ago something was; the exact time is its title. */
export function Time({ at }: { at: Timestamp | Date | undefined }) {
  const present = useNow();
  if (!at) return <span className="muted">never</span>;
  const date = at instanceof Date ? at : timestampDate(at);
  return (
    <time dateTime={date.toISOString()} title={date.toLocaleString()}>
      {ago(date, Math.max(present, Date.now() - 1_000))}
    </time>
  );
}
