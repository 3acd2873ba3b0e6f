// All routes of the edges, with what is behind them and how many requests they get.

import { useMemo, useState } from "react";
import { counted } from "../../ui/count";
import { SearchField } from "../../ui/field";
import { useNarrow } from "../../ui/narrow";
import { Empty, Note } from "../../ui/page";
import { Sparkline } from "../../ui/sparkline";
import { Status, type Tone } from "../../ui/status";
import { type Column, VirtualTable } from "../../ui/table";
import {
  errorPart,
  hostWord,
  matching,
  partWord,
  pathWord,
  type RouteRow,
  rateWord,
  type Sort,
  type SortColumn,
  sorted,
  type TrafficState,
  timeWord,
} from "./model";
import { ApplicationLink, Commit, objectWord } from "./parts";

export interface RoutesProps {
  runtime: string;
  state: TrafficState;
  query: string;
  onQuery: (query: string) => void;
  onOpen: (key: string) => void;
}

export function Routes({ runtime, state, query, onQuery, onOpen }: RoutesProps) {
  const narrow = useNarrow();
  const [sort, setSort] = useState<Sort>({ column: "route", descending: false });
  const rows = useMemo(() => sorted(matching(state.rows, query), sort), [state.rows, query, sort]);
  const columns = useMemo(() => columnsOf(runtime, narrow, onOpen), [runtime, narrow, onOpen]);
  const more = state.table?.moreRoutes ?? 0;
  if (state.rows.length === 0) {
    return (
      <Empty title="No routes">
        The edges serve nothing yet. Put an Ingress with the class of the edge into an application, and its routes are
        here.
      </Empty>
    );
  }
  return (
    <div className="stack">
      <div className="row">
        <div className="traffic-filter">
          <SearchField
            label="Find routes"
            placeholder="Host, path, Ingress, application, commit"
            value={query}
            onChange={onQuery}
          />
        </div>
        <span className="muted" role="status">
          {rows.length === state.rows.length
            ? counted(rows.length, "route", "routes")
            : `${rows.length} of ${state.rows.length} routes`}
        </span>
      </div>
      {more > 0 && (
        <Note tone="warn">
          The edges serve {counted(more, "more route", "more routes")}. Only the {state.rows.length} with the most
          requests are listed; the totals include all.
        </Note>
      )}
      <div className="panel traffic-table">
        <VirtualTable
          label="Routes"
          columns={columns}
          rows={rows}
          rowKey={(row) => row.key}
          rowHeight={52}
          narrow={narrow}
          sort={sort}
          onSort={(column) =>
            setSort((before) => ({
              column: column as SortColumn,
              // Numbers are looked at from the top.
              descending:
                before.column === column
                  ? !before.descending
                  : ["commit", "requests", "errors", "p50", "p99"].includes(column),
            }))
          }
        />
      </div>
    </div>
  );
}

function columnsOf(runtime: string, narrow: boolean, onOpen: (key: string) => void): Column<RouteRow>[] {
  return [
    {
      id: "route",
      header: "Route",
      width: narrow ? "minmax(0, 1fr)" : "minmax(150px, 2fr)",
      sortable: true,
      cell: (row) => (
        <button type="button" className="traffic-route" onClick={() => onOpen(row.key)}>
          <span className="traffic-host">{hostWord(row.route)}</span>
          <span className="muted mono">{pathWord(row.route)}</span>
        </button>
      ),
    },
    {
      id: "ingress",
      header: "Ingress",
      width: "minmax(100px, 1.2fr)",
      wideOnly: true,
      sortable: true,
      cell: (row) => <span title={objectWord(row.route.ref)}>{objectWord(row.route.ref)}</span>,
    },
    {
      id: "application",
      header: "Application",
      width: "minmax(90px, 1fr)",
      wideOnly: true,
      sortable: true,
      cell: (row) => (
        <ApplicationLink
          runtime={runtime}
          application={row.application}
          note={row.route.applicationByService ? "via Service" : ""}
        />
      ),
    },
    {
      id: "commit",
      header: "Commit",
      width: "minmax(110px, 1.6fr)",
      wideOnly: true,
      sortable: true,
      cell: (row) => <Commit application={row.application} />,
    },
    {
      id: "requests",
      header: narrow ? "Req/s" : "Requests/s",
      width: narrow ? "76px" : "118px",
      sortable: true,
      cell: (row) => <Requests row={row} narrow={narrow} />,
    },
    {
      id: "errors",
      header: "Errors",
      width: narrow ? "64px" : "92px",
      sortable: true,
      cell: (row) => <Errors row={row} narrow={narrow} />,
    },
    {
      id: "p50",
      header: "p50",
      width: "98px",
      wideOnly: true,
      sortable: true,
      cell: (row) => <Took row={row} which="p50" />,
    },
    {
      id: "p99",
      header: "p99",
      width: "98px",
      wideOnly: true,
      sortable: true,
      cell: (row) => <Took row={row} which="p99" />,
    },
  ];
}

/** ownAnswer returns why a route has no backend, if it has none. */
function ownAnswer(row: RouteRow): { tone: Tone; word: string } | undefined {
  if (row.route.status > 0)
    return { tone: row.route.status >= 500 ? "bad" : "off", word: `returns ${row.route.status}` };
  const backends = row.route.backends;
  if (backends.length > 0 && backends.every((backend) => backend.readyEndpoints === 0)) {
    return { tone: "bad", word: "no endpoint" };
  }
  return undefined;
}

function Requests({ row, narrow }: { row: RouteRow; narrow: boolean }) {
  if (row.route.unmeasured) return <span className="muted">not measured</span>;
  const rate = row.numbers?.requestsPerSecond ?? 0;
  const own = ownAnswer(row);
  if (own && rate === 0)
    return (
      <span title={row.route.message || own.word}>
        <Status tone={own.tone}>{narrow && row.route.status > 0 ? String(row.route.status) : own.word}</Status>
      </span>
    );
  return (
    <span className="traffic-figure">
      <span className="traffic-number">{rateWord(rate)}</span>
      {!narrow && row.course && (
        <Sparkline
          values={row.course.requests}
          width={60}
          height={24}
          label={`Requests per second, now ${rateWord(rate)}`}
        />
      )}
    </span>
  );
}

function Errors({ row, narrow }: { row: RouteRow; narrow: boolean }) {
  if (!row.numbers || !row.course) return <span className="muted">–</span>;
  const part = errorPart(row.numbers);
  return (
    <span className="traffic-figure">
      <span className={part > 0 ? "traffic-number tone-bad" : "traffic-number"}>{partWord(part)}</span>
      {!narrow && (
        <Sparkline
          values={row.course.errors}
          width={36}
          height={24}
          max={0.05}
          tone={row.course.errors.some((each) => each > 0) ? "bad" : "off"}
          label={`5xx rate, now ${partWord(part)}`}
        />
      )}
    </span>
  );
}

function Took({ row, which }: { row: RouteRow; which: "p50" | "p99" }) {
  if (!row.numbers || !row.course) return <span className="muted">–</span>;
  const word = timeWord(row.numbers[which]);
  return (
    <span className="traffic-figure">
      <span className="traffic-number">{word}</span>
      <Sparkline
        values={row.course[which]}
        width={36}
        height={24}
        tone="off"
        label={`${which === "p50" ? "Half" : "99 of 100"} of the requests took at most ${word}`}
      />
    </span>
  );
}
