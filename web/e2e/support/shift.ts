// Layout shifts without user input.

import type { BrowserContext } from "@playwright/test";

// The maximum layout shift of a page, as browsers measure it (cumulative layout shift): the part
// of the screen that moves times how far, summed over a burst. A tenth is what is called
// good; this is half of it.
const most = 0.05;

// Shifts belong to one burst when each follows the one before within a second, for at most five
// seconds. A page that is open for minutes is not worse than one that is left.
const burstGap = 1000;
const burstLength = 5000;

interface Shift {
  /** When the page was loaded: each load has a sum of its own. */
  load: number;
  path: string;
  /** When it happened, in milliseconds since the load. */
  time: number;
  value: number;
  /** What moved, from where to where. */
  moved: string[];
}

/** Steadiness has what jumped in the pages of a context. */
export interface Steadiness {
  /** problems is the pages that jumped too much, with what did. */
  problems(): string[];
}

/** watchShifts records the layout shifts of every page of the context. */
export async function watchShifts(context: BrowserContext): Promise<Steadiness> {
  const shifts: Shift[] = [];
  await context.exposeBinding("slipwayShifted", (_, shift: Shift) => {
    shifts.push(shift);
  });
  await context.addInitScript(observe);
  return {
    problems() {
      const pages = new Map<string, Shift[]>();
      for (const shift of shifts) {
        const key = `${shift.load} ${shift.path}`;
        pages.set(key, [...(pages.get(key) ?? []), shift]);
      }
      return [...pages.values()].flatMap(bursts).flatMap((all) => {
        const sum = all.reduce((before, { value }) => before + value, 0);
        if (sum < most) return [];
        const told = all.map((one) => `${one.value.toFixed(3)}: ${one.moved.join("; ")}`);
        return [`${all[0]?.path} jumps by ${sum.toFixed(3)}, more than ${most}:\n  ${told.join("\n  ")}`];
      });
    },
  };
}

/** bursts divides the shifts of a page. */
function bursts(shifts: Shift[]): Shift[][] {
  const all: Shift[][] = [];
  for (const shift of shifts.toSorted((a, b) => a.time - b.time)) {
    const last = all.at(-1);
    const [first, before] = [last?.[0], last?.at(-1)];
    if (last && first && before && shift.time - before.time <= burstGap && shift.time - first.time <= burstLength)
      last.push(shift);
    else all.push([shift]);
  }
  return all;
}

// observe runs in the page.
function observe(): void {
  interface Entry extends PerformanceEntry {
    value: number;
    hadRecentInput: boolean;
    sources: { node: Node | null; previousRect: DOMRectReadOnly; currentRect: DOMRectReadOnly }[];
  }
  const tell = (window as unknown as { slipwayShifted: (shift: Shift) => Promise<void> }).slipwayShifted;
  const name = (node: Node | null): string => {
    const element = node instanceof Element ? node : node?.parentElement;
    return `${element?.tagName.toLowerCase()}.${element?.className} "${(node?.textContent ?? "").slice(0, 24)}"`;
  };
  const at = (box: DOMRectReadOnly): string => [box.x, box.y, box.width, box.height].map(Math.round).join(",");
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries() as Entry[]) {
      if (entry.hadRecentInput) continue;
      void tell({
        load: performance.timeOrigin,
        path: location.pathname + location.search,
        time: entry.startTime,
        value: entry.value,
        moved: entry.sources.map((one) => `${name(one.node)} ${at(one.previousRect)} > ${at(one.currentRect)}`),
      });
    }
  }).observe({ type: "layout-shift", buffered: true });
}
