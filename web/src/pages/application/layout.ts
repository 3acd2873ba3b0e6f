// Where the boxes of the graph stand: a column for each level, and what made others
// in the middle of them.

import type { TreeRow } from "./tree";

export const nodeWidth = 220;
export const nodeHeight = 52;
const across = 60;
const down = 12;
const margin = 16;

export interface GraphLayout {
  width: number;
  height: number;
  boxes: { row: TreeRow; x: number; y: number }[];
  lines: { id: string; path: string }[];
}

/** graphLayout places rows that come in the order of the tree. */
export function graphLayout(rows: TreeRow[]): GraphLayout {
  const below = new Map<string, TreeRow[]>();
  const roots: TreeRow[] = [];
  for (const row of rows) {
    const list = row.parent === null ? roots : below.get(row.parent);
    if (list) list.push(row);
    else if (row.parent !== null) below.set(row.parent, [row]);
  }
  const top = new Map<string, number>();
  let next = margin;
  const place = (row: TreeRow): number => {
    const places = (below.get(row.id) ?? []).map(place);
    let y = next;
    if (places.length > 0) y = ((places[0] as number) + (places.at(-1) as number)) / 2;
    else next += nodeHeight + down;
    top.set(row.id, y);
    return y;
  };
  for (const root of roots) place(root);

  const left = (row: TreeRow) => margin + (row.level - 1) * (nodeWidth + across);
  const layout: GraphLayout = { width: 0, height: next + margin, boxes: [], lines: [] };
  for (const row of rows) {
    const [x, y] = [left(row), top.get(row.id) ?? 0];
    layout.boxes.push({ row, x, y });
    layout.width = Math.max(layout.width, x + nodeWidth + margin);
    if (row.parent === null) continue;
    const from = x - across;
    const [start, end] = [(top.get(row.parent) ?? 0) + nodeHeight / 2, y + nodeHeight / 2];
    const middle = x - across / 2;
    layout.lines.push({ id: row.id, path: `M${from} ${start}C${middle} ${start} ${middle} ${end} ${x} ${end}` });
  }
  return layout;
}
