// Deployments, the newest first.

import { timestampMs } from "@bufbuild/protobuf/wkt";
import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import type { Deployment } from "../../api/gen/slipway/platform/v1/history_pb";
import { Button } from "../../ui/button";
import { counted } from "../../ui/count";
import { useNarrow } from "../../ui/narrow";
import { Empty, Failure, Loading, Panel } from "../../ui/page";
import { Status } from "../../ui/status";
import { type Column, VirtualTable } from "../../ui/table";
import { Time } from "../../ui/time";
import { shortRevision } from "../applications/parts";
import { DeploymentDialog } from "./deployment";
import { type HistoryFilter, requestOf } from "./filter";
import { ApplicationLink } from "./parts";
import { history } from "./queries";
import { betweenWord, initiatorWord, resultOf } from "./words";

interface DeploymentsProps {
  filter: HistoryFilter;
  onClear: () => void;
}

export function Deployments({ filter, onClear }: DeploymentsProps) {
  const queries = useQueryClient();
  const narrow = useNarrow();
  const [shown, setShown] = useState<Deployment | null>(null);
  const columns = useMemo(() => columnsOf(narrow, setShown), [narrow]);
  // The span is fixed while the list is read: a page's token is for one list.
  const [began] = useState(() => Date.now());
  const request = requestOf(filter, began);
  const queryKey = ["history", "deployments", filter, began];
  const list = useInfiniteQuery({
    queryKey,
    queryFn: ({ pageParam, signal }) =>
      history.listDeployments({ filter: request, pageSize: 200, pageToken: pageParam }, { signal }),
    initialPageParam: "",
    getNextPageParam: (last) => last.nextPageToken || undefined,
    // Reading all pages again would shift the visible rows.
    refetchOnWindowFocus: false,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
  });
  // There is no stream of it: the newest one shows whether there are more.
  const newest = useQuery({
    queryKey: ["history", "newest", filter, began],
    queryFn: ({ signal }) => history.listDeployments({ filter: request, pageSize: 1 }, { signal }),
    refetchInterval: 5_000,
  });
  if (list.isPending) return <Loading lines={10} />;
  if (list.isError && !list.data) return <Failure error={list.error} retry={() => void list.refetch()} />;
  const rows = list.data.pages.flatMap((page) => page.deployments);
  const latest = newest.data?.deployments[0]?.id;
  const hasNewer = latest !== undefined && latest !== rows[0]?.id && newest.dataUpdatedAt > list.dataUpdatedAt;
  const newer = hasNewer && (
    <Button small onPress={() => void queries.resetQueries({ queryKey })}>
      Show newer deployments
    </Button>
  );
  if (rows.length === 0 && !list.hasNextPage) {
    return <NoDeployments filtered={filter.runtime !== "" || filter.app !== ""} action={newer} onClear={onClear} />;
  }
  return (
    <Panel flush>
      <div className="history-table">
        <VirtualTable
          // Rows of another height are another list.
          key={narrow ? "narrow" : "wide"}
          label="Deployments"
          columns={columns}
          rows={rows}
          rowKey={(row) => row.id}
          rowHeight={narrow ? 72 : 52}
          narrow={narrow}
        />
      </div>
      <div className="history-foot" role="status">
        <span>{counted(rows.length, "deployment", "deployments")}</span>
        {list.hasNextPage && (
          <Button small isPending={list.isFetchingNextPage} onPress={() => void list.fetchNextPage()}>
            {list.isFetchNextPageError ? "Loading failed. Try again" : "Load older deployments"}
          </Button>
        )}
        {newer}
      </div>
      {shown && <DeploymentDialog deployment={shown} onClose={() => setShown(null)} />}
    </Panel>
  );
}

interface NoDeploymentsProps {
  filtered: boolean;
  action: React.ReactNode;
  onClear: () => void;
}

function NoDeployments({ filtered, action, onClear }: NoDeploymentsProps) {
  return filtered ? (
    <Empty title="No matching deployments" action={action || <Button onPress={onClear}>Clear the filters</Button>}>
      An application is found by its full name.
    </Empty>
  ) : (
    <Empty title="No deployments in this time" action={action}>
      A sync that changes the revision of an application is a deployment, and so is one that fails to.
    </Empty>
  );
}

function columnsOf(narrow: boolean, onShow: (deployment: Deployment) => void): Column<Deployment>[] {
  const result = (row: Deployment) => {
    const { label, tone } = resultOf(row);
    return (
      <button
        type="button"
        className="link-button"
        onClick={() => onShow(row)}
        aria-label={`${label}: ${row.name} ${shortRevision(row.revision)}`}
      >
        <Status tone={tone}>{label}</Status>
      </button>
    );
  };
  const revision = (row: Deployment) => <code title={row.revision}>{shortRevision(row.revision)}</code>;
  const application = (row: Deployment) => (
    <ApplicationLink runtime={row.runtime} namespace={row.namespace} name={row.name} />
  );
  if (narrow) {
    return [
      { id: "application", header: "Application", cell: application },
      {
        id: "result",
        header: "Result",
        width: "150px",
        cell: (row) => (
          <span className="history-lines">
            <span>{result(row)}</span>
            <span className="history-small">
              {revision(row)} <Time at={row.finishedAt} />
            </span>
          </span>
        ),
      },
    ];
  }
  return [
    { id: "when", header: "Finished", width: "118px", cell: (row) => <Time at={row.finishedAt} /> },
    { id: "result", header: "Result", width: "124px", cell: result },
    { id: "application", header: "Application", width: "minmax(140px, 1.5fr)", cell: application },
    { id: "project", header: "Project", width: "minmax(80px, 1fr)", cell: (row) => row.project },
    { id: "revision", header: "Revision", width: "minmax(90px, 1fr)", cell: revision },
    { id: "took", header: "Took", width: "100px", cell: (row) => betweenWord(row.startedAt, row.finishedAt) },
    { id: "lead", header: "Lead time", width: "110px", cell: (row) => leadTime(row) },
    { id: "by", header: "By", width: "minmax(100px, 1fr)", cell: initiatorWord },
  ];
}

// leadTime is absent for what goes back: its commit was deployed before.
function leadTime(row: Deployment): string {
  if (row.rollback || !row.committedAt || !row.finishedAt) return "–";
  return timestampMs(row.committedAt) > timestampMs(row.finishedAt)
    ? "0 s"
    : betweenWord(row.committedAt, row.finishedAt);
}
