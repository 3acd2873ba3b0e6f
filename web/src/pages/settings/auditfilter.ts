// What of the audit log is shown.

import { type Timestamp, timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { Tone } from "../../ui/status";

export interface AuditFilter {
  actor: string;
  action: string;
  target: string;
  /** Hours back, as a number in text; empty is everything. */
  period: string;
}

export const noFilter: AuditFilter = { actor: "", action: "", target: "", period: "" };

export const periods = [
  { value: "", label: "Any time" },
  { value: "1", label: "The last hour" },
  { value: "24", label: "The last day" },
  { value: "168", label: "The last 7 days" },
  { value: "720", label: "The last 30 days" },
];

export interface AuditRequest {
  actor: string;
  action: string;
  target: string;
  since?: Timestamp;
}

/** requestOf returns the request of a filter. */
export function requestOf(filter: AuditFilter, now: number): AuditRequest {
  const hours = Number(filter.period);
  return {
    actor: filter.actor.trim(),
    action: filter.action.trim(),
    target: filter.target.trim(),
    ...(filter.period !== "" && Number.isFinite(hours) ? { since: timestampFromMs(now - hours * 3_600_000) } : {}),
  };
}

/** outcomeTone is the colour of what became of something. */
export function outcomeTone(outcome: string): Tone {
  switch (outcome) {
    case "ok":
      return "good";
    case "begun":
      return "progress";
    case "denied":
    case "unknown":
      return "warn";
    case "failed":
      return "bad";
    default:
      return "off";
  }
}
