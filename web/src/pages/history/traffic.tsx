// The past traffic of the edges of a runtime.

import { durationMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { useQuery } from "@tanstack/react-query";
import { explain } from "../../api/errors";
import type {
  GetTrafficHistoryResponse,
  TrafficHistory,
  TrafficPoint,
} from "../../api/gen/slipway/platform/v1/history_pb";
import { type Bar, Bars } from "../../ui/bars";
import { counted } from "../../ui/count";
import { Figures } from "../../ui/figures";
import { useNarrow } from "../../ui/narrow";
import { Empty, Failure, Loading, Note, Panel } from "../../ui/page";
import { Sparkline } from "../../ui/sparkline";
import { type Column, VirtualTable } from "../../ui/table";
import { partWord, timeWord } from "../traffic/model";
import type { HistoryFilter } from "./filter";
import { ApplicationLink, Key } from "./parts";
import { trafficQuery } from "./queries";
import { minuteWord, seriesKey, seriesWord, stepWord } from "./words";

export function PastTraffic({ filter }: { filter: HistoryFilter }) {
  const query = useQuery(trafficQuery(filter));
  const narrow = useNarrow();
  if (!query.data) {
    return query.error ? <Failure error={query.error} retry={() => void query.refetch()} /> : <Loading lines={12} />;
  }
  const { data } = query;
  if ((data.total?.sum?.requests ?? 0n) === 0n) {
    return (
      <Empty title="No requests in this time">
        The edges of {filter.runtime} counted none{filter.app === "" ? "" : ` for ${filter.app}`}. Their counts arrive
        once a minute.
      </Empty>
    );
  }
  return (
    <div className="stack">
      {query.error && <Note tone="warn">{explain(query.error)} The data shown may be stale.</Note>}
      <Total sum={data.total?.sum} />
      <Panel title={`Requests per ${stepWord(data.step)}`}>
        <div className="stack">
          <Bars label={`Requests, ${countWord(data.total?.sum?.requests)} in total`} bars={barsOf(data)} />
          <Key
            items={[
              { tone: "good", label: "Other responses" },
              { tone: "warn", label: "4xx" },
              { tone: "bad", label: "5xx" },
            ]}
          />
        </div>
      </Panel>
      {data.seriesLeftOut > 0 && (
        <Note tone="off">{counted(data.seriesLeftOut, "more is", "more are")} in the total only.</Note>
      )}
      {data.seriesMerged > 0 && (
        <Note tone="off">
          At least {counted(data.seriesMerged, "object and host was", "objects and hosts were")} not stored one by one:
          their requests are in the row others.
        </Note>
      )}
      <Panel flush>
        <div className="history-groups">
          <VirtualTable
            label="Past traffic"
            columns={columnsOf(filter.runtime, narrow)}
            rows={data.series}
            rowKey={(row) => seriesKey(row.series)}
            rowHeight={52}
            narrow={narrow}
          />
        </div>
      </Panel>
    </div>
  );
}

const countWord = (count: bigint | undefined): string => Number(count ?? 0n).toLocaleString("en");
const part = (of: bigint, all: bigint): number => (all === 0n ? 0 : Number(of) / Number(all));

function Total({ sum }: { sum: TrafficPoint | undefined }) {
  const all = sum?.requests ?? 0n;
  const share = (of: bigint) => ({ value: partWord(part(of, all)), note: countWord(of) });
  return (
    <Figures
      items={[
        { label: "Total requests", value: <span data-testid="past-requests">{countWord(all)}</span> },
        { label: "5xx", ...share(sum?.errors ?? 0n), bad: (sum?.errors ?? 0n) > 0n },
        { label: "4xx", ...share(sum?.clientErrors ?? 0n) },
        { label: "p50 and p99", value: timeWord(sum?.p50 ?? 0), note: timeWord(sum?.p99 ?? 0) },
      ]}
    />
  );
}

function barsOf(data: GetTrafficHistoryResponse): Bar[] {
  const begin = data.since ? timestampMs(data.since) : 0;
  const step = data.step ? durationMs(data.step) : 0;
  return (data.total?.points ?? []).map((point, at) => ({
    label: minuteWord(begin + at * step),
    parts: [
      { tone: "good", label: "Other responses", value: Number(point.requests - point.errors - point.clientErrors) },
      { tone: "warn", label: "4xx", value: Number(point.clientErrors) },
      { tone: "bad", label: "5xx", value: Number(point.errors) },
    ],
  }));
}

function columnsOf(runtime: string, narrow: boolean): Column<TrafficHistory>[] {
  const share = (row: TrafficHistory, of: bigint | undefined) => partWord(part(of ?? 0n, row.sum?.requests ?? 0n));
  return [
    {
      id: "object",
      header: "Object and host",
      width: "minmax(150px, 2fr)",
      cell: ({ series }) => (
        <span className="history-lines">
          <span title={seriesWord(series)}>{seriesWord(series)}</span>
          {series?.host && <span className="muted history-small">{series.host}</span>}
        </span>
      ),
    },
    {
      id: "application",
      header: "Application",
      width: "minmax(120px, 1fr)",
      wideOnly: true,
      cell: ({ series }) =>
        series?.application ? (
          <ApplicationLink runtime={runtime} namespace={series.applicationNamespace} name={series.application} />
        ) : (
          <span className="muted">none</span>
        ),
    },
    {
      id: "course",
      header: "Course",
      width: "130px",
      wideOnly: true,
      cell: (row) => (
        <Sparkline
          values={row.points.map((point) => Number(point.requests))}
          label={`Requests of ${seriesWord(row.series)}: ${countWord(row.sum?.requests)}`}
        />
      ),
    },
    {
      id: "requests",
      header: "Requests",
      width: narrow ? "80px" : "100px",
      cell: (row) => <span className="history-number">{countWord(row.sum?.requests)}</span>,
    },
    {
      id: "errors",
      header: "5xx",
      width: "70px",
      cell: (row) => (
        <span className={row.sum?.errors ? "tone-bad" : undefined} title={countWord(row.sum?.errors)}>
          {share(row, row.sum?.errors)}
        </span>
      ),
    },
    {
      id: "refused",
      header: "4xx",
      width: "70px",
      wideOnly: true,
      cell: (row) => <span title={countWord(row.sum?.clientErrors)}>{share(row, row.sum?.clientErrors)}</span>,
    },
    { id: "p50", header: "p50", width: "80px", wideOnly: true, cell: (row) => timeWord(row.sum?.p50 ?? 0) },
    { id: "p99", header: "p99", width: "80px", wideOnly: true, cell: (row) => timeWord(row.sum?.p99 ?? 0) },
  ];
}
