// Where the parts of the topology are drawn: the platform, the runtimes beside it,
// and beside each the clusters that it deploys to.

import type { Runtime } from "../../api/gen/slipway/platform/v1/fleet_pb";
import type { Tone } from "../../ui/status";
import { problemsOf } from "./model";

export interface Place {
  id: string;
  kind: "platform" | "runtime" | "cluster";
  title: string;
  detail: string;
  tone: Tone;
  /** The meaning of the colour. */
  state: string;
  x: number;
  y: number;
  /** The runtime that it belongs to. */
  runtime: string;
}

export interface Line {
  id: string;
  tone: Tone;
  path: string;
}

export interface Topology {
  places: Place[];
  lines: Line[];
  width: number;
  height: number;
}

export const box = { width: 210, height: 56 };
const gap = { x: 90, y: 16 };
const margin = 12;
const column = (at: number): number => margin + at * (box.width + gap.x);

/** runtimeState returns the colour of a runtime and its meaning. */
export function runtimeState(runtime: Runtime, now: number): { tone: Tone; state: string } {
  if (!runtime.online) return { tone: "bad", state: "offline" };
  const worst = problemsOf(runtime, now);
  if (worst.some((one) => one.tone === "bad")) return { tone: "bad", state: "online, with an error" };
  if (worst.length > 0) return { tone: "warn", state: "online, with a warning" };
  return { tone: "good", state: "online" };
}

const clusterTones: Record<string, Tone> = { Connected: "good", Failed: "bad" };

/** layout draws a tree from left to right. A runtime stands at the middle of its clusters. */
export function layout(runtimes: Runtime[], account: string, now: number): Topology {
  const places: Place[] = [];
  const lines: Line[] = [];
  const step = box.height + gap.y;
  let row = 0;
  const middles: [number, Tone, string][] = [];
  for (const runtime of runtimes) {
    const { tone, state } = runtimeState(runtime, now);
    const own = {
      name: runtime.cluster || "in-cluster",
      status: runtime.online ? "Connected" : "Unknown",
      message: "its own cluster",
      server: "",
    };
    const clusters = [own, ...runtime.clusters];
    const first = row;
    const y = margin + ((first + first + clusters.length - 1) / 2) * step;
    places.push({
      id: `runtime ${runtime.name}`,
      kind: "runtime",
      title: runtime.name,
      detail: `${runtime.version || "no version"}${runtime.configurationRuntime ? " · configuration" : ""}`,
      tone,
      state,
      x: column(1),
      y,
      runtime: runtime.name,
    });
    middles.push([y + box.height / 2, tone, runtime.name]);
    clusters.forEach((cluster, at) => {
      const shown = runtime.online ? (clusterTones[cluster.status] ?? "off") : "off";
      const top = margin + row * step;
      places.push({
        id: `cluster ${runtime.name} ${at === 0 ? "" : cluster.name}`,
        kind: "cluster",
        title: cluster.name,
        detail: at === 0 ? "its own cluster" : cluster.server,
        tone: shown,
        state: runtime.online ? (cluster.status || "Unknown").toLowerCase() : "unknown: the runtime is offline",
        x: column(2),
        y: top,
        runtime: runtime.name,
      });
      lines.push({
        id: `${runtime.name} to ${at} ${cluster.name}`,
        tone: shown,
        path: curve(column(1) + box.width, y + box.height / 2, column(2), top + box.height / 2),
      });
      row++;
    });
  }
  const height = 2 * margin + Math.max(1, row) * step - gap.y;
  const middle = (height - box.height) / 2;
  for (const [y, tone, name] of middles) {
    lines.push({
      id: `platform to ${name}`,
      tone,
      path: curve(column(0) + box.width, middle + box.height / 2, column(1), y),
    });
  }
  places.unshift({
    id: "platform",
    kind: "platform",
    title: "Platform",
    detail: account,
    tone: "good",
    state: "online",
    x: column(0),
    y: middle,
    runtime: "",
  });
  return { places, lines, width: column(2) + box.width + margin, height };
}

function curve(x1: number, y1: number, x2: number, y2: number): string {
  const half = (x1 + x2) / 2;
  return `M${x1} ${y1}C${half} ${y1} ${half} ${y2} ${x2} ${y2}`;
}

/** shorten keeps a text within its box. */
export function shorten(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}
