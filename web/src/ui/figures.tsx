import type { ReactNode } from "react";
import "./figures.css";

export interface Figure {
  label: string;
  value: ReactNode;
  /** What the value is about, beside it. */
  note?: ReactNode;
  /** The value needs attention. */
  bad?: boolean;
  /** The course of the value, below it. */
  line?: ReactNode;
}

/** Figures sums up a page. Old ones are of before the connection was lost. */
export function Figures({ items, old }: { items: Figure[]; old?: boolean }) {
  return (
    <dl className={old ? "figures old" : "figures"}>
      {items.map(({ label, value, note, bad, line }) => (
        <div key={label}>
          <dt>{label}</dt>
          <dd>
            <strong className={bad ? "tone-bad" : undefined}>{value}</strong>
            {note !== undefined && <span className="muted">{note}</span>}
            {line !== undefined && <div className="line">{line}</div>}
          </dd>
        </div>
      ))}
    </dl>
  );
}
