import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useRef } from "react";

export interface Column<T> {
  id: string;
  header: string;
  cell: (row: T) => ReactNode;
  /** A track of a CSS grid, for VirtualTable. */
  width?: string;
  /** Left out on narrow screens. */
  wideOnly?: boolean;
  /** The header sorts by it, in a VirtualTable with onSort. */
  sortable?: boolean;
}

export interface TableProps<T> {
  label: string;
  columns: Column<T>[];
  rows: T[];
  rowKey: (row: T) => string;
}

export function Table<T>({ label, columns, rows, rowKey }: TableProps<T>) {
  return (
    <section className="scroll-x" aria-label={label} tabIndex={0}>
      <table className="table">
        <caption className="visually-hidden">{label}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.id} scope="col" className={column.wideOnly ? "wide-only" : undefined}>
                {column.header}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={rowKey(row)}>
              {columns.map((column) => (
                <td key={column.id} className={column.wideOnly ? "wide-only" : undefined}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

export interface VirtualTableProps<T> extends TableProps<T> {
  rowHeight?: number;
  narrow?: boolean;
  /** How the rows are sorted. They are sorted by who has them. */
  sort?: { column: string; descending: boolean };
  onSort?: (column: string) => void;
}

/** VirtualTable draws the rows that are seen, for lists of thousands. */
export function VirtualTable<T>({
  label,
  columns,
  rows,
  rowKey,
  rowHeight = 44,
  narrow,
  sort,
  onSort,
}: VirtualTableProps<T>) {
  const scroller = useRef<HTMLDivElement>(null);
  const shown = narrow ? columns.filter((column) => !column.wideOnly) : columns;
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowHeight,
    overscan: 8,
  });
  const template = shown.map((column) => column.width ?? "1fr").join(" ");
  return (
    <div
      className="virtual"
      role="table"
      aria-label={label}
      aria-rowcount={rows.length + 1}
      ref={scroller}
      tabIndex={0}
    >
      <div role="rowgroup">
        <div className="vrow vhead" role="row" aria-rowindex={1} style={{ gridTemplateColumns: template }}>
          {shown.map((column) => (
            <span key={column.id} role="columnheader" aria-sort={sortWord(column, sort)}>
              {column.sortable && onSort ? (
                <button type="button" className="sorter" onClick={() => onSort(column.id)}>
                  {column.header}
                  <span aria-hidden="true">{sort?.column === column.id ? (sort.descending ? " ↓" : " ↑") : ""}</span>
                </button>
              ) : (
                column.header
              )}
            </span>
          ))}
        </div>
      </div>
      <div className="vrows" role="rowgroup" style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map((item) => {
          const row = rows[item.index] as T;
          return (
            <div
              key={rowKey(row)}
              className="vrow"
              role="row"
              aria-rowindex={item.index + 2}
              style={{ height: item.size, transform: `translateY(${item.start}px)`, gridTemplateColumns: template }}
            >
              {shown.map((column) => (
                <span key={column.id} role="cell">
                  {column.cell(row)}
                </span>
              ))}
            </div>
          );
        })}
      </div>
    </div>
  );
}

function sortWord<T>(column: Column<T>, sort: VirtualTableProps<T>["sort"]): "ascending" | "descending" | undefined {
  if (sort?.column !== column.id) return undefined;
  return sort.descending ? "descending" : "ascending";
}
