import type { TrafficRefusal, TrafficTable } from "../../api/gen/slipway/runtime/v1/traffic_pb";
import { Empty } from "../../ui/page";
import { Status, type Tone } from "../../ui/status";
import { Table } from "../../ui/table";
import { applicationAt } from "./model";
import { ApplicationLink } from "./parts";

const words: Record<string, { tone: Tone; word: string }> = {
  Invalid: { tone: "bad", word: "Invalid" },
  Unsupported: { tone: "warn", word: "Unsupported" },
  NotFound: { tone: "bad", word: "Not found" },
  NotAllowed: { tone: "bad", word: "Not allowed" },
  NotReady: { tone: "progress", word: "Not ready" },
  Unreadable: { tone: "bad", word: "Unreadable" },
  Conflict: { tone: "warn", word: "Conflict" },
  TooLarge: { tone: "bad", word: "Too large" },
};

export function Refusals({ runtime, table }: { runtime: string; table: TrafficTable }) {
  if (table.refusals.length === 0) {
    return <Empty title="No refusals">All Ingress settings are accepted and served.</Empty>;
  }
  return (
    <div className="stack">
      <p className="muted">
        Settings that were rejected. The message explains the fix; the entry disappears when the object is fixed in Git.
      </p>
      <div className="panel">
        <Table
          label="Refusals"
          columns={[
            {
              id: "object",
              header: "Object",
              cell: (r: TrafficRefusal) => (
                <>
                  <div>
                    {r.kind} {r.namespace === "" ? r.name : `${r.namespace}/${r.name}`}
                  </div>
                  <div className="muted mono traffic-small">{r.field}</div>
                </>
              ),
            },
            {
              id: "reason",
              header: "Reason",
              cell: (r) => {
                const { tone, word } = words[r.reason] ?? { tone: "warn" as const, word: r.reason };
                return <Status tone={tone}>{word}</Status>;
              },
            },
            { id: "message", header: "Fix", cell: (r) => r.message },
            {
              id: "application",
              header: "Application",
              wideOnly: true,
              cell: (r) => <ApplicationLink runtime={runtime} application={applicationAt(table, r.application)} />,
            },
          ]}
          rows={table.refusals}
          rowKey={(r) => JSON.stringify([r.kind, r.namespace, r.name, r.field, r.message])}
        />
      </div>
      {table.moreRefusals > 0 && <p className="muted">{table.moreRefusals} more are not listed.</p>}
    </div>
  );
}
