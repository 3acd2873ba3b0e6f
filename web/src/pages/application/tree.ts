// The resources of an application as a list of rows, indented as what made them.

import type { Node } from "../../api/gen/slipway/runtime/v1/application_pb";
import { objectOf, writeObject } from "./resourcename";

export interface TreeRow {
  /** The place in the tree: what has two parents is in two places. */
  id: string;
  node: Node;
  level: number;
  children: number;
  expanded: boolean;
  position: number;
  siblings: number;
  /** The row that this one is below. */
  parent: string | null;
}

export interface TreeFilter {
  text: string;
  kind: string;
  health: string;
  outOfSync: boolean;
}

export const noFilter: TreeFilter = { text: "", kind: "", health: "", outOfSync: false };

/** isFiltered is true when a filter leaves something out. */
export function isFiltered(filter: TreeFilter): boolean {
  return filter.text !== "" || filter.kind !== "" || filter.health !== "" || filter.outOfSync;
}

// People look at what serves before what configures.
const kinds = [
  "Ingress",
  "Service",
  "Deployment",
  "StatefulSet",
  "DaemonSet",
  "Rollout",
  "CronJob",
  "Job",
  "ReplicaSet",
  "Pod",
];

function rank(kind: string): number {
  const at = kinds.indexOf(kind);
  return at < 0 ? kinds.length : at;
}

function compare(a: Node, b: Node): number {
  const [x, y] = [objectOf(a.ref), objectOf(b.ref)];
  return (
    rank(x.kind) - rank(y.kind) ||
    (x.kind < y.kind ? -1 : x.kind > y.kind ? 1 : 0) ||
    // The newest of what is made again and again is what runs.
    (a.parents.length > 0 ? Number((b.createdAt?.seconds ?? 0n) - (a.createdAt?.seconds ?? 0n)) : 0) ||
    (writeObject(x) < writeObject(y) ? -1 : 1)
  );
}

export interface Tree {
  roots: Node[];
  children: Map<string, Node[]>;
}

/** buildTree finds the children of each node. Whoever's parents are not there is a root. */
export function buildTree(nodes: Node[]): Tree {
  const known = new Set(nodes.map((node) => node.ref?.uid).filter(Boolean));
  const children = new Map<string, Node[]>();
  const roots: Node[] = [];
  for (const node of [...nodes].sort(compare)) {
    const parents = node.parents.filter((uid) => known.has(uid) && uid !== node.ref?.uid);
    if (parents.length === 0) roots.push(node);
    for (const uid of parents) {
      const list = children.get(uid);
      if (list) list.push(node);
      else children.set(uid, [node]);
    }
  }
  return { roots, children };
}

/**
 * changedObjects is what is new, different or gone, as writeObject names it. What has
 * no version is compared by what is shown of it.
 */
export function changedObjects(before: Node[], after: Node[]): Set<string> {
  const changed = new Set<string>();
  const old = new Map(before.map((node) => [writeObject(objectOf(node.ref)), stateOf(node)]));
  for (const node of after) {
    const name = writeObject(objectOf(node.ref));
    if (old.get(name) !== stateOf(node)) changed.add(name);
    old.delete(name);
  }
  for (const name of old.keys()) changed.add(name);
  return changed;
}

function stateOf(node: Node): string {
  return [node.ref?.uid, node.resourceVersion, node.sync, node.health, node.healthMessage].join(" ");
}

function fits(node: Node, filter: TreeFilter): boolean {
  const object = objectOf(node.ref);
  if (filter.kind !== "" && object.kind !== filter.kind) return false;
  if (filter.health !== "" && (node.health || "Unknown") !== filter.health) return false;
  if (filter.outOfSync && node.sync !== "OutOfSync" && !node.requiresPruning) return false;
  return filter.text === "" || `${object.kind}/${object.name}`.toLowerCase().includes(filter.text.toLowerCase());
}

// Owner references are untrusted: cycles end here.
const deepest = 20;
const mostRows = 10_000;

/**
 * treeRows is the rows that are seen. With a filter, what fits and what leads to it
 * is open; without, every node that is not in collapsed.
 */
export function treeRows(tree: Tree, collapsed: ReadonlySet<string>, filter: TreeFilter): TreeRow[] {
  const rows: TreeRow[] = [];
  const filtered = isFiltered(filter);
  const leads = new Map<Node, boolean>();
  const leadsTo = (node: Node, depth: number): boolean => {
    const known = leads.get(node);
    if (known !== undefined) return known;
    const below = depth < deepest && childrenOf(tree, node).some((child) => leadsTo(child, depth + 1));
    const result = fits(node, filter) || below;
    leads.set(node, result);
    return result;
  };
  const add = (nodes: Node[], parent: TreeRow | null) => {
    const seen = filtered ? nodes.filter((node) => leadsTo(node, 0)) : nodes;
    seen.forEach((node, at) => {
      if (rows.length >= mostRows) return;
      const level = (parent?.level ?? 0) + 1;
      const id = `${parent?.id ?? ""}>${node.ref?.uid || writeObject(objectOf(node.ref))}`;
      const all = level < deepest ? childrenOf(tree, node) : [];
      const below = filtered ? all.filter((child) => leadsTo(child, 0)) : all;
      const expanded = below.length > 0 && !collapsed.has(id);
      const row: TreeRow = {
        id,
        node,
        level,
        children: below.length,
        expanded,
        position: at + 1,
        siblings: seen.length,
        parent: parent?.id ?? null,
      };
      rows.push(row);
      if (expanded) add(below, row);
    });
  };
  add(tree.roots, null);
  return rows;
}

function childrenOf(tree: Tree, node: Node): Node[] {
  const uid = node.ref?.uid;
  return uid ? (tree.children.get(uid) ?? []) : [];
}

/** treeValues is what can be chosen in the filters, with how many there are. */
export function treeValues(nodes: Node[]): {
  kinds: [string, number][];
  healths: [string, number][];
  outOfSync: number;
} {
  const kindCounts = new Map<string, number>();
  const healthCounts = new Map<string, number>();
  let outOfSync = 0;
  for (const node of nodes) {
    const kind = node.ref?.kind ?? "";
    kindCounts.set(kind, (kindCounts.get(kind) ?? 0) + 1);
    const health = node.health || "Unknown";
    healthCounts.set(health, (healthCounts.get(health) ?? 0) + 1);
    if (node.sync === "OutOfSync" || node.requiresPruning) outOfSync++;
  }
  const byName = ([a]: [string, number], [b]: [string, number]) => (a < b ? -1 : 1);
  return { kinds: [...kindCounts].sort(byName), healths: [...healthCounts].sort(byName), outOfSync };
}

export interface Step {
  move?: number;
  expand?: boolean;
  open?: boolean;
}

/** keyStep is what a key does in a tree, as everywhere: null when it does nothing. */
export function keyStep(key: string, rows: TreeRow[], at: number): Step | null {
  const row = rows[at];
  if (!row) return null;
  switch (key) {
    case "ArrowDown":
      return { move: at + 1 };
    case "ArrowUp":
      return { move: at - 1 };
    case "PageDown":
      return { move: at + 10 };
    case "PageUp":
      return { move: at - 10 };
    case "Home":
      return { move: 0 };
    case "End":
      return { move: rows.length - 1 };
    case "ArrowRight":
      if (row.children === 0) return null;
      return row.expanded ? { move: at + 1 } : { expand: true };
    case "ArrowLeft":
      if (row.expanded) return { expand: false };
      return row.parent === null ? null : { move: rows.findIndex((each) => each.id === row.parent) };
    case "Enter":
    case " ":
      return { open: true };
    default:
      return null;
  }
}
