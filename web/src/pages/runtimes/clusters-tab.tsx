// The clusters that a runtime deploys to.

import { create } from "@bufbuild/protobuf";
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { explain } from "../../api/errors";
import type { Runtime } from "../../api/gen/slipway/platform/v1/fleet_pb";
import { type ManagedCluster, ManagedClusterSchema } from "../../api/gen/slipway/runtime/v1/runtime_pb";
import { runtime as client } from "../../api/runtime";
import { useSession } from "../../app/session";
import { Button } from "../../ui/button";
import { CopyBlock } from "../../ui/copy";
import { ConfirmDialog, Dialog } from "../../ui/dialog";
import { Checkbox, TextField } from "../../ui/field";
import { Empty, Loading, Note, Panel } from "../../ui/page";
import { Status, type Tone } from "../../ui/status";
import { type Column, Table } from "../../ui/table";
import { Time } from "../../ui/time";
import { toast } from "../../ui/toast";
import { shellWord } from "../wizard/install-command";

const tones: Record<string, Tone> = { Connected: "good", Failed: "bad" };

export function ClustersTab({ runtime }: { runtime: Runtime }) {
  const { isAdmin } = useSession();
  const queries = useQueryClient();
  const [adding, setAdding] = useState(false);
  const [removing, setRemoving] = useState<ManagedCluster | null>(null);
  const [force, setForce] = useState(false);
  const reported = runtime.clusters.map((one) => [one.name, one.server, one.status, one.version].join(" ")).join("\n");
  const asked = useQuery({
    queryKey: ["clusters", runtime.name, reported],
    queryFn: () => client(runtime.name).clusters.listClusters({}),
    enabled: runtime.online,
    placeholderData: keepPreviousData,
  });
  const told = runtime.clusters.map((one) => create(ManagedClusterSchema, { ...one, $typeName: undefined }));
  const clusters = asked.data?.clusters ?? told;
  const columns: Column<ManagedCluster>[] = [
    {
      id: "name",
      header: "Name",
      cell: (row) => (
        <span className="runtime-version">
          <strong>{row.name}</strong>
          {row.inCluster && <Status tone="off">Its own</Status>}
        </span>
      ),
    },
    {
      id: "server",
      header: "Server",
      wideOnly: true,
      cell: (row) => (
        <div className="cell-message">
          <code>{row.server}</code>
          {row.namespaces.length > 0 && <div className="muted">only {row.namespaces.join(", ")}</div>}
        </div>
      ),
    },
    { id: "version", header: "Kubernetes", wideOnly: true, cell: (row) => row.version || "–" },
    {
      id: "state",
      header: "Connection",
      cell: (row) => (
        <div className="cell-message">
          <Status tone={tones[row.status] ?? "off"}>{row.status || "Unknown"}</Status>
          {row.message && <div className="muted">{row.message}</div>}
        </div>
      ),
    },
    {
      id: "token",
      header: "Token ends",
      wideOnly: true,
      cell: (row) => (row.tokenExpiresAt ? <Time at={row.tokenExpiresAt} /> : "–"),
    },
  ];
  if (isAdmin) {
    columns.push({
      id: "actions",
      header: "Actions",
      cell: (row) =>
        row.inCluster ? null : (
          <Button
            small
            variant="danger"
            isDisabled={!runtime.online}
            onPress={() => {
              setForce(false);
              setRemoving(row);
            }}
            aria-label={`Remove the cluster ${row.name}`}
          >
            Remove
          </Button>
        ),
    });
  }
  return (
    <Panel
      title="Managed clusters"
      flush
      actions={
        isAdmin && (
          <Button small variant="primary" onPress={() => setAdding(true)}>
            Add cluster
          </Button>
        )
      }
    >
      {asked.isError && runtime.online && (
        <Note tone="warn">The runtime did not respond. Showing its last report: {explain(asked.error)}</Note>
      )}
      {!isAdmin && <Note>Admins of the account add and remove clusters.</Note>}
      {asked.isPending && runtime.online && clusters.length === 0 ? (
        <Loading lines={3} />
      ) : clusters.length === 0 ? (
        <Empty title="No clusters added">The runtime deploys to its own cluster. Add others that it deploys to.</Empty>
      ) : (
        <Table
          label={`Clusters of ${runtime.name}`}
          columns={columns}
          rows={clusters}
          rowKey={(row) => row.server || row.name}
        />
      )}
      {adding && (
        <AddCluster
          name={runtime.name}
          onClose={() => {
            setAdding(false);
            void queries.invalidateQueries({ queryKey: ["clusters", runtime.name] });
          }}
        />
      )}
      <ConfirmDialog
        title={`Remove the cluster ${removing?.name ?? ""}`}
        confirmLabel="Remove"
        danger
        isOpen={removing !== null}
        onClose={() => setRemoving(null)}
        onConfirm={async () => {
          if (!removing) return;
          await client(runtime.name).clusters.removeCluster({ server: removing.server, force });
          toast(`${runtime.name} removed the cluster ${removing.name}.`);
          await queries.invalidateQueries({ queryKey: ["clusters", runtime.name] });
        }}
      >
        <p>The runtime removes the cluster. Deployed resources stay.</p>
        <Checkbox isSelected={force} onChange={setForce}>
          Remove it even if Applications deploy to it
        </Checkbox>
      </ConfirmDialog>
    </Panel>
  );
}

function AddCluster({ name, onClose }: { name: string; onClose: () => void }) {
  const [cluster, setCluster] = useState("");
  const [context, setContext] = useState("");
  const shown = cluster.trim() || "staging";
  const command = ["slipway", "cluster", "add", shown, "--runtime", name, "--context", context.trim() || shown];
  return (
    <Dialog title="Add cluster" isOpen onClose={onClose}>
      <div className="stack">
        <p>
          Run this where your kubeconfig reaches the new cluster. It creates a service account there, and gives the
          runtime a token that is valid for a day and renewed by the runtime. The objects are shown before they are
          created.
        </p>
        <TextField label="Cluster name" value={cluster} onChange={setCluster} placeholder="staging" />
        <TextField
          label="Kubeconfig context"
          value={context}
          onChange={setContext}
          placeholder={shown}
          description="As listed by kubectl config get-contexts."
        />
        <CopyBlock label="Command that adds the cluster" text={command.map(shellWord).join(" ")} />
        <p className="muted">
          Add --namespaces shop,shop-jobs to limit permissions to those namespaces, and --dry-run to preview. The
          cluster appears here when it is added.
        </p>
      </div>
    </Dialog>
  );
}
