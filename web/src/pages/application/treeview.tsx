import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, memo, type SyntheticEvent, useEffect, useRef, useState } from "react";
import type { Node } from "../../api/gen/slipway/runtime/v1/application_pb";
import { ChevronIcon } from "../../ui/icons";
import { Health, Status, Sync } from "../../ui/status";
import { Time } from "../../ui/time";
import type { Place } from "./follow";
import { ResourceActions } from "./resourceactions";
import { objectOf, type ResourceName } from "./resourcename";
import { keyStep, type TreeRow } from "./tree";

export interface ResourceTreeProps {
  rows: TreeRow[];
  onToggle: (id: string, open: boolean) => void;
  onOpen: (resource: ResourceName) => void;
  /** Set if the user may run actions of resources. */
  actionsOf?: Place | undefined;
}

/** isOfRow is false for what happens in the menu of a row or in its dialogs, which React passes on to the row. */
function isOfRow({ target, currentTarget }: SyntheticEvent): boolean {
  return target instanceof Element && currentTarget.contains(target) && !target.closest(".tree-actions");
}

/** ResourceTree is a tree for mouse, keyboard and screen readers. */
export function ResourceTree({ rows, onToggle, onOpen, actionsOf }: ResourceTreeProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const [active, setActive] = useState("");
  // The row that the keyboard is at; it may be gone after a change.
  const at = Math.max(
    0,
    rows.findIndex((row) => row.id === active),
  );
  const moved = useRef(false);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => 44,
    overscan: 15,
    getItemKey: (index) => rows[index]?.id ?? index,
  });

  useEffect(() => {
    if (!moved.current) return;
    moved.current = false;
    virtual.scrollToIndex(at);
    // The row may be drawn only after the scroll.
    requestAnimationFrame(() => scroller.current?.querySelector<HTMLElement>(`[data-row="${at}"]`)?.focus());
  });

  const move = (to: number) => {
    const row = rows[Math.min(rows.length - 1, Math.max(0, to))];
    if (!row) return;
    moved.current = true;
    setActive(row.id);
  };
  const pressed = (event: KeyboardEvent) => {
    const row = rows[at];
    if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = keyStep(event.key, rows, at);
    if (!step) return;
    event.preventDefault();
    if (step.move !== undefined) move(step.move);
    if (step.expand !== undefined) onToggle(row.id, step.expand);
    if (step.open) onOpen(objectOf(row.node.ref));
  };

  return (
    <div className="tree-scroll" ref={scroller} style={{ height: `min(${virtual.getTotalSize()}px, 62vh)` }}>
      <div className="tree" role="tree" aria-label="Resources" style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map((item) => {
          const row = rows[item.index];
          if (!row) return null;
          return (
            <div
              key={item.key}
              role="treeitem"
              className="tree-row"
              data-row={item.index}
              aria-level={row.level}
              aria-posinset={row.position}
              aria-setsize={row.siblings}
              aria-expanded={row.children > 0 ? row.expanded : undefined}
              aria-selected={item.index === at}
              tabIndex={item.index === at ? 0 : -1}
              style={{
                height: item.size,
                transform: `translateY(${item.start}px)`,
                paddingInlineStart: 10 + Math.min(row.level - 1, 8) * 20,
              }}
              onFocus={() => setActive(row.id)}
              onKeyDown={(event) => isOfRow(event) && pressed(event)}
              onClick={(event) => isOfRow(event) && onOpen(objectOf(row.node.ref))}
            >
              {row.children > 0 ? (
                <span
                  className={row.expanded ? "tree-arrow open" : "tree-arrow"}
                  aria-hidden="true"
                  onClick={(event) => {
                    event.stopPropagation();
                    onToggle(row.id, !row.expanded);
                  }}
                >
                  <ChevronIcon />
                </span>
              ) : (
                <span className="tree-arrow" aria-hidden="true" />
              )}
              <NodeFacts node={row.node} />
              {actionsOf && (
                <span className="tree-actions">
                  <ResourceActions
                    place={actionsOf}
                    object={objectOf(row.node.ref)}
                    lazy
                    excludeFromTabOrder={item.index !== at}
                  />
                </span>
              )}
            </div>
          );
        })}
      </div>
    </div>
  );
}

/** NodeFacts shows the status of a resource in its row. */
const NodeFacts = memo(function NodeFacts({ node }: { node: Node }) {
  const object = objectOf(node.ref);
  const facts = Object.entries(node.info)
    .filter(([key]) => key !== "images" && key !== "image")
    .map(([key, value]) => `${key} ${value}`)
    .join(" · ");
  return (
    <>
      <span className="tree-kind" title={object.group ? `${object.kind}.${object.group}` : object.kind}>
        {object.kind}
      </span>
      <span className="tree-name" title={object.namespace ? `${object.namespace}/${object.name}` : object.name}>
        {object.name}
      </span>
      <span className="tree-info muted wide-only" title={node.healthMessage || facts}>
        {node.healthMessage || facts}
      </span>
      <span className="tree-marks">
        {node.hook && <Status tone="off">Hook</Status>}
        {node.requiresPruning && <Status tone="warn">To prune</Status>}
        {node.sync && !node.requiresPruning && !node.hook && <Sync value={node.sync} />}
        {node.health && <Health value={node.health} />}
      </span>
      <span className="tree-age muted wide-only">{node.createdAt && <Time at={node.createdAt} />}</span>
    </>
  );
});
