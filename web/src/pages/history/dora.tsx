// The four DORA figures of a span. docs/history.md has their definitions.

import { useQuery } from "@tanstack/react-query";
import { explain } from "../../api/errors";
import type { Dora, GetDoraResponse } from "../../api/gen/slipway/platform/v1/history_pb";
import { type Bar, Bars } from "../../ui/bars";
import { counted } from "../../ui/count";
import { Select } from "../../ui/field";
import { Figures } from "../../ui/figures";
import { useNarrow } from "../../ui/narrow";
import { Empty, Failure, Loading, Note, Panel } from "../../ui/page";
import { type Column, VirtualTable } from "../../ui/table";
import { Time } from "../../ui/time";
import { partWord } from "../traffic/model";
import type { HistoryFilter } from "./filter";
import { ApplicationLink, Key } from "./parts";
import { doraQuery } from "./queries";
import { dayWord, durationWord, type Grouping, groupings, groupKey, perDayWord } from "./words";

interface DoraFiguresProps {
  filter: HistoryFilter;
  by: Grouping;
  onGroup: (by: Grouping) => void;
}

export function DoraFigures({ filter, by, onGroup }: DoraFiguresProps) {
  const query = useQuery(doraQuery(filter, by));
  const narrow = useNarrow();
  if (!query.data) {
    return query.error ? <Failure error={query.error} retry={() => void query.refetch()} /> : <Loading lines={12} />;
  }
  const { data } = query;
  if (data.groups.length === 0) {
    return (
      <Empty title="No figures for this time">
        The figures follow from the deployments, and there are none in this time.
      </Empty>
    );
  }
  return (
    <div className="stack">
      {query.error && <Note tone="warn">{explain(query.error)} The data shown may be stale.</Note>}
      {data.truncated && (
        <Note tone="warn">
          There are too many deployments for one request: these figures begin <Time at={data.since} />.
        </Note>
      )}
      <Total total={data.total} />
      <Panel title="Deployments per day">
        <div className="stack">
          <Bars label={`Deployments per day, ${data.total?.deployments ?? 0} in total`} bars={barsOf(data)} />
          <Key
            items={[
              { tone: "good", label: "Succeeded" },
              { tone: "warn", label: "Rolled back" },
              { tone: "bad", label: "Failed" },
            ]}
          />
        </div>
      </Panel>
      <div className="history-head">
        <h2>Groups</h2>
        <Select
          label="Group by"
          hideLabel
          value={by}
          onChange={(next) => onGroup(next as Grouping)}
          options={groupings}
        />
      </div>
      {data.groupsLeftOut > 0 && (
        <Note tone="off">{counted(data.groupsLeftOut, "group", "groups")} with fewer deployments are not shown.</Note>
      )}
      <Panel flush>
        <div className="history-groups">
          <VirtualTable
            label="DORA figures"
            columns={columnsOf(narrow)}
            rows={data.groups}
            rowKey={groupKey}
            rowHeight={52}
            narrow={narrow}
          />
        </div>
      </Panel>
    </div>
  );
}

function Total({ total }: { total: Dora | undefined }) {
  const failures = (total?.failed ?? 0) + (total?.rolledBack ?? 0);
  return (
    <Figures
      items={[
        {
          label: "Deployment frequency",
          value: `${perDayWord(total?.deploymentsPerDay ?? 0)} per day`,
          note: counted(total?.deployments ?? 0, "deployment", "deployments"),
        },
        {
          label: "Lead time for changes",
          value: durationWord(total?.leadTime),
          note: `median of ${counted(total?.leadTimes ?? 0, "commit", "commits")}`,
        },
        {
          label: "Change failure rate",
          value: partWord(total?.changeFailureRate ?? 0),
          bad: failures > 0,
          note: `${total?.failed ?? 0} failed, ${total?.rolledBack ?? 0} rolled back`,
        },
        {
          label: "Time to restore",
          value: durationWord(total?.timeToRestore),
          note: `median of ${total?.restores ?? 0}, ${total?.openFailures ?? 0} open`,
        },
      ]}
    />
  );
}

// barsOf: those that were rolled back had succeeded before.
const barsOf = (data: GetDoraResponse): Bar[] =>
  data.days.map((day) => ({
    label: dayWord(day.day),
    parts: [
      { tone: "good", label: "Succeeded", value: day.deployments - day.rolledBack },
      { tone: "warn", label: "Rolled back", value: day.rolledBack },
      { tone: "bad", label: "Failed", value: day.failed },
    ],
  }));

function columnsOf(narrow: boolean): Column<Dora>[] {
  const number = (value: number | string) => <span className="history-number">{value}</span>;
  return [
    { id: "group", header: "Group", width: "minmax(140px, 2fr)", cell: (row) => <Group row={row} /> },
    {
      id: "deployments",
      header: narrow ? "Depl." : "Deployments",
      width: narrow ? "60px" : "110px",
      cell: (row) => number(row.deployments),
    },
    {
      id: "frequency",
      header: "Per day",
      width: "80px",
      wideOnly: true,
      cell: (row) => number(perDayWord(row.deploymentsPerDay)),
    },
    { id: "lead", header: "Lead time", width: "110px", wideOnly: true, cell: (row) => durationWord(row.leadTime) },
    { id: "failed", header: "Failed", width: "70px", wideOnly: true, cell: (row) => number(row.failed) },
    { id: "back", header: "Rolled back", width: "100px", wideOnly: true, cell: (row) => number(row.rolledBack) },
    {
      id: "rate",
      header: "Failure rate",
      width: "100px",
      cell: (row) => (
        <span className={row.changeFailureRate > 0 ? "tone-bad" : undefined}>{partWord(row.changeFailureRate)}</span>
      ),
    },
    {
      id: "restore",
      header: "Time to restore",
      width: "120px",
      wideOnly: true,
      cell: (row) => durationWord(row.timeToRestore),
    },
    { id: "open", header: "Open", width: "60px", wideOnly: true, cell: (row) => number(row.openFailures) },
  ];
}

function Group({ row }: { row: Dora }) {
  if (row.name !== "") return <ApplicationLink runtime={row.runtime} namespace={row.namespace} name={row.name} />;
  return <>{row.project || row.runtime || "–"}</>;
}
