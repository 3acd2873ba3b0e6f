import { memo } from "react";
import type { Tone } from "../../ui/status";
import { type Facet, rankOf } from "./filter";

const tones: Record<string, Tone> = {
  Healthy: "good",
  Progressing: "progress",
  Degraded: "bad",
  Missing: "warn",
  Suspended: "off",
  Unknown: "off",
  Synced: "good",
  Syncing: "progress",
  OutOfSync: "warn",
};

export interface TotalsProps {
  facet: Facet;
  label: string;
  counts: Map<string, number>;
  chosen: string[];
  onToggle: (facet: Facet, value: string) => void;
}

/** Totals is how many applications have each value, as a bar and as buttons that choose. */
export const Totals = memo(function Totals({ facet, label, counts, chosen, onToggle }: TotalsProps) {
  const all = new Map(counts);
  for (const value of chosen) if (!all.has(value)) all.set(value, 0);
  const values = [...all].sort(([a], [b]) => rankOf(facet, b) - rankOf(facet, a));
  return (
    <fieldset className="totals">
      <legend className="visually-hidden">{`Applications by ${label.toLowerCase()}`}</legend>
      <div className="totals-bar" aria-hidden="true">
        {values.map(([value, count]) => (
          <span key={value} className={`tone-${tones[value] ?? "off"}`} style={{ flexGrow: count }} />
        ))}
      </div>
      <div className="totals-values">
        {values.map(([value, count]) => (
          <button
            key={value}
            type="button"
            className="total"
            aria-pressed={chosen.includes(value)}
            onClick={() => onToggle(facet, value)}
          >
            <span className={`dot tone-${tones[value] ?? "off"}`} aria-hidden="true" />
            <strong>{count.toLocaleString("en")}</strong> {value === "OutOfSync" ? "Out of sync" : value}
          </button>
        ))}
      </div>
    </fieldset>
  );
});
