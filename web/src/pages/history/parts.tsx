// Small things that more than one view of the history shows.

import { Link } from "@tanstack/react-router";
import type { Tone } from "../../ui/status";

/** ApplicationLink leads to an application, with the place of it below its name. */
export function ApplicationLink({ runtime, namespace, name }: { runtime: string; namespace: string; name: string }) {
  return (
    <span className="history-lines">
      <Link
        to="/applications/$runtime/$namespace/$name"
        params={{ runtime, namespace, name }}
        preload={false}
        title={`${runtime} / ${namespace} / ${name}`}
      >
        {name}
      </Link>
      <span className="muted history-small">
        {runtime} / {namespace}
      </span>
    </span>
  );
}

/** Key says what the colours of a chart mean. */
export function Key({ items }: { items: { tone: Tone; label: string }[] }) {
  return (
    <div className="history-key">
      {items.map(({ tone, label }) => (
        <span key={label}>
          <span className={`dot tone-${tone}`} aria-hidden="true" />
          {label}
        </span>
      ))}
    </div>
  );
}
