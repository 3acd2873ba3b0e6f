import { useMemo } from "react";
import { Dot, type Tone } from "../../ui/status";
import { graphLayout, nodeHeight, nodeWidth } from "./layout";
import { objectOf, type ResourceName } from "./resourcename";
import type { TreeRow } from "./tree";

const tones: Record<string, Tone> = {
  Healthy: "good",
  Progressing: "progress",
  Degraded: "bad",
  Missing: "warn",
};

// So many boxes can be taken in at a glance, and drawn at once.
const mostBoxes = 400;

/** ResourceGraph is the same rows as boxes, from left to right. */
export function ResourceGraph({ rows, onOpen }: { rows: TreeRow[]; onOpen: (resource: ResourceName) => void }) {
  const shown = rows.length > mostBoxes ? rows.slice(0, mostBoxes) : rows;
  const layout = useMemo(() => graphLayout(shown), [shown]);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard.
    <section className="graph" aria-label="Resource graph" tabIndex={0}>
      {rows.length > shown.length && (
        <p className="muted graph-note">
          The first {shown.length} of {rows.length} resources. Use a filter to see others.
        </p>
      )}
      <div className="graph-space" style={{ width: layout.width, height: layout.height }}>
        <svg className="graph-lines" width={layout.width} height={layout.height} aria-hidden="true">
          {layout.lines.map((line) => (
            <path key={line.id} d={line.path} />
          ))}
        </svg>
        {layout.boxes.map(({ row, x, y }) => {
          const object = objectOf(row.node.ref);
          const health = row.node.health || "no health";
          return (
            <button
              key={row.id}
              type="button"
              className="graph-box"
              data-sync={row.node.sync}
              style={{ left: x, top: y, width: nodeWidth, height: nodeHeight }}
              onClick={() => onOpen(object)}
              title={`${object.kind} ${object.name}${row.node.healthMessage ? `\n${row.node.healthMessage}` : ""}`}
            >
              <span className="graph-kind">
                {row.node.health && <Dot tone={tones[row.node.health] ?? "off"} label={health} />}
                {object.kind}
                {row.node.sync === "OutOfSync" && <span className="tone-warn">out of sync</span>}
              </span>
              <span className="graph-name">{object.name}</span>
            </button>
          );
        })}
      </div>
    </section>
  );
}
