// The audit log: who did what. For admins.

import { timestampDate } from "@bufbuild/protobuf/wkt";
import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { type UIEvent, useState } from "react";
import type { AuditEntry } from "../../api/gen/slipway/platform/v1/identity_pb";
import { platform } from "../../api/transport";
import { useSession } from "../../app/session";
import { Button } from "../../ui/button";
import { Select, TextField } from "../../ui/field";
import { useNarrow } from "../../ui/narrow";
import { Empty, Failure, Loading, Panel } from "../../ui/page";
import { useSettled } from "../../ui/settled";
import { Status } from "../../ui/status";
import { type Column, VirtualTable } from "../../ui/table";
import { Time } from "../../ui/time";
import { AuditEntryDialog } from "./audit-entry";
import { type AuditFilter, noFilter, outcomeTone, periods, requestOf } from "./auditfilter";

// Begins to read on before the end is seen.
const ahead = 800;

export function AuditSection() {
  const { isAdmin } = useSession();
  if (!isAdmin) {
    return <Empty title="Only admins can read the audit log">It records who did what in the account.</Empty>;
  }
  return <Audit />;
}

function Audit() {
  const [filter, setFilter] = useState<AuditFilter>(noFilter);
  const [shown, setShown] = useState<AuditEntry | null>(null);
  const set = (change: Partial<AuditFilter>) => setFilter({ ...filter, ...change });
  const settled = useSettled(filter, 350);
  const filtered = settled.actor !== "" || settled.action !== "" || settled.target !== "" || settled.period !== "";
  return (
    <div className="stack">
      <div className="filters">
        <TextField
          label="Who"
          value={filter.actor}
          onChange={(actor) => set({ actor })}
          placeholder="ann@example.com"
          description="Full email, key name or runtime name."
        />
        <TextField
          label="What"
          value={filter.action}
          onChange={(action) => set({ action })}
          placeholder="runtime.register"
          description="Full action name."
        />
        <TextField
          label="On"
          value={filter.target}
          onChange={(target) => set({ target })}
          placeholder="runtime/prod"
          description="Full kind and name."
        />
        <Select label="When" value={filter.period} onChange={(period) => set({ period })} options={periods} />
      </div>
      <Entries
        key={JSON.stringify(settled)}
        filter={settled}
        filtered={filtered}
        onClear={() => setFilter(noFilter)}
        onShow={setShown}
      />
      {shown && (
        <AuditEntryDialog
          entry={shown}
          onClose={() => setShown(null)}
          onFilter={(change) => {
            setFilter({ ...noFilter, ...change });
            setShown(null);
          }}
        />
      )}
    </div>
  );
}

interface EntriesProps {
  filter: AuditFilter;
  filtered: boolean;
  onClear: () => void;
  onShow: (entry: AuditEntry) => void;
}

function Entries({ filter, filtered, onClear, onShow }: EntriesProps) {
  const queries = useQueryClient();
  const narrow = useNarrow();
  // The bound is fixed while the list is read: a page's token is for one list.
  const [began] = useState(() => Date.now());
  const request = requestOf(filter, began);
  const queryKey = ["audit", filter, began];
  const log = useInfiniteQuery({
    queryKey,
    queryFn: ({ pageParam }) => platform.audit.listEntries({ ...request, pageSize: 200, pageToken: pageParam }),
    initialPageParam: "",
    getNextPageParam: (last) => last.nextPageToken || undefined,
    // Reading all pages again would shift the visible rows.
    refetchOnWindowFocus: false,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
  });
  // There is no stream of the log: the newest entry shows whether there is more.
  const newest = useQuery({
    queryKey: ["audit-newest", filter, began],
    queryFn: () => platform.audit.listEntries({ ...request, pageSize: 1 }),
    refetchInterval: 5_000,
  });
  if (log.isPending) return <Loading lines={10} />;
  if (log.isError && !log.data) return <Failure error={log.error} retry={() => void log.refetch()} />;
  const rows = log.data.pages.flatMap((page) => page.entries);
  const latest = newest.data?.entries[0]?.id;
  const more = latest !== undefined && latest !== rows[0]?.id && newest.dataUpdatedAt > log.dataUpdatedAt;
  const readOn = (event: UIEvent<HTMLElement>) => {
    const box = event.target;
    if (!(box instanceof HTMLElement) || log.isFetchingNextPage || !log.hasNextPage) return;
    if (box.scrollHeight - box.scrollTop - box.clientHeight < ahead) void log.fetchNextPage();
  };
  if (rows.length === 0) {
    return (
      <Empty
        title={filtered ? "Nothing matches" : "No entries yet"}
        action={filtered && <Button onPress={onClear}>Show everything</Button>}
      >
        {filtered
          ? "Filters match the full name, as it is spelled in the log."
          : "Changes in the account are recorded here."}
      </Empty>
    );
  }
  return (
    <Panel flush>
      <div className="audit-log" onScrollCapture={readOn}>
        <VirtualTable
          label="Audit log"
          columns={columns(onShow, narrow)}
          rows={rows}
          rowKey={(row) => row.id}
          narrow={narrow}
        />
      </div>
      <div className="audit-foot">
        <div className="audit-state" role="status">
          {log.isFetchingNextPage
            ? "Reading older entries…"
            : log.hasNextPage
              ? `${rows.length} entries. Scroll to load older entries.`
              : `${rows.length} ${rows.length === 1 ? "entry" : "entries"}, no older ones.`}
          {more && (
            <Button small onPress={() => void queries.resetQueries({ queryKey })}>
              Show newer entries
            </Button>
          )}
          {log.isFetchNextPageError && (
            <Button small onPress={() => void log.fetchNextPage()}>
              Loading older entries failed. Try again
            </Button>
          )}
        </div>
      </div>
    </Panel>
  );
}

function columns(onShow: (entry: AuditEntry) => void, narrow: boolean): Column<AuditEntry>[] {
  const who = (entry: AuditEntry) => entry.actor || entry.actorKind;
  return [
    {
      id: "when",
      header: "When",
      width: narrow ? "84px" : "118px",
      cell: (entry) => <Time at={entry.at && timestampDate(entry.at)} />,
    },
    { id: "who", header: "Who", width: "minmax(120px, 1.4fr)", wideOnly: true, cell: who },
    {
      id: "what",
      header: "What",
      width: "minmax(90px, 1.5fr)",
      cell: (entry) => (
        <>
          <button type="button" className="link-button" onClick={() => onShow(entry)} title={entry.action}>
            {entry.action}
          </button>
          {narrow && <div className="audit-who">{who(entry)}</div>}
        </>
      ),
    },
    { id: "on", header: "On", width: "1.4fr", wideOnly: true, cell: (entry) => entry.target },
    {
      id: "outcome",
      header: "Outcome",
      width: "88px",
      cell: (entry) => <Status tone={outcomeTone(entry.outcome)}>{entry.outcome}</Status>,
    },
    { id: "detail", header: "Detail", width: "1.2fr", wideOnly: true, cell: (entry) => entry.detail },
    { id: "from", header: "From", width: "100px", wideOnly: true, cell: (entry) => entry.address },
  ];
}
