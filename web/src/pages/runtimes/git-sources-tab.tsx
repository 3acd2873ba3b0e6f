// The Git Sources of a runtime. Their states come with the runtime's own stream;
// data that is not part of a stream is requested from the runtime when it changes.

import { create } from "@bufbuild/protobuf";
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { explain } from "../../api/errors";
import type { Runtime } from "../../api/gen/slipway/platform/v1/fleet_pb";
import { type GitSource, GitSourceSchema } from "../../api/gen/slipway/runtime/v1/runtime_pb";
import { runtime as client } from "../../api/runtime";
import { useSession } from "../../app/session";
import { Button, ExternalLink } from "../../ui/button";
import { ConfirmDialog } from "../../ui/dialog";
import { Menu } from "../../ui/menu";
import { Empty, Loading, Note, Panel } from "../../ui/page";
import { Health, healthWord, Sync, syncWord } from "../../ui/status";
import { type Column, Table } from "../../ui/table";
import { toast } from "../../ui/toast";
import { webAddress } from "./git-source";
import { GitSourceDialog } from "./git-source-dialog";

const busyStates = ["Progressing", "Missing", "Unknown", ""];

// useGitSources is what the runtime has, with the newest states that it reported.
function useGitSources(runtime: Runtime) {
  const reported = runtime.gitSources.map((one) =>
    [one.name, one.revision, one.sync, one.health, one.message].join(" "),
  );
  const asked = useQuery({
    queryKey: ["git-sources", runtime.name, reported.join("\n")],
    queryFn: () => client(runtime.name).gitSources.listGitSources({}),
    enabled: runtime.online,
    placeholderData: keepPreviousData,
    // There is no stream of a source that is on its way; look until it has arrived.
    refetchInterval: (query) =>
      query.state.data?.gitSources.some((one) => one.sync !== "Synced" || busyStates.includes(one.health))
        ? 1_000
        : false,
  });
  const told = runtime.gitSources.map((one) =>
    create(GitSourceSchema, {
      name: one.name,
      repoUrl: one.repoUrl,
      path: one.path,
      revision: one.revision,
      message: one.message,
      sync: syncWord(one.sync),
      health: healthWord(one.health),
    }),
  );
  return { sources: asked.data?.gitSources ?? told, mayCreate: asked.data?.mayCreate ?? false, asked };
}

export function GitSourcesTab({ runtime }: { runtime: Runtime }) {
  const { isAdmin } = useSession();
  const queries = useQueryClient();
  const { sources, mayCreate, asked } = useGitSources(runtime);
  const [editing, setEditing] = useState<GitSource | "new" | null>(null);
  const [deleting, setDeleting] = useState<GitSource | null>(null);
  const again = () => queries.invalidateQueries({ queryKey: ["git-sources", runtime.name] });
  const off = !runtime.online;
  // Admins have all rights, also on runtimes that do not list them yet.
  const may = (row: GitSource, verb: string) => isAdmin || row.rights.includes(verb);
  const changeable = (row: GitSource) => may(row, "update") || may(row, "delete");
  const columns: Column<GitSource>[] = [
    {
      id: "name",
      header: "Name",
      cell: (row) => (
        <Link to="/applications" search={{ runtime: runtime.name, query: row.name }}>
          {row.name}
        </Link>
      ),
    },
    { id: "repository", header: "Repository", cell: (row) => <Repository source={row} /> },
    { id: "revision", header: "Revision", wideOnly: true, cell: (row) => <code>{row.revision || "HEAD"}</code> },
    { id: "sync", header: "Sync", cell: (row) => <Sync value={row.sync} /> },
    {
      id: "health",
      header: "Health",
      wideOnly: true,
      cell: (row) => (
        <div className="cell-message">
          <Health value={row.health} />
          {row.message && <div className="muted">{row.message}</div>}
        </div>
      ),
    },
  ];
  if (sources.some(changeable)) {
    columns.push({
      id: "actions",
      header: "Actions",
      cell: (row) =>
        changeable(row) && (
          <Menu
            label={`Actions for the Git Source ${row.name}`}
            entries={[
              ...(may(row, "update")
                ? [{ id: "edit", label: "Change", isDisabled: off, onAction: () => setEditing(row) }]
                : []),
              ...(may(row, "delete")
                ? [{ id: "delete", label: "Delete", danger: true, isDisabled: off, onAction: () => setDeleting(row) }]
                : []),
            ]}
          />
        ),
    });
  }
  const first = asked.isPending && runtime.online && sources.length === 0;
  return (
    <Panel
      title="Git Sources"
      flush
      actions={
        (isAdmin || mayCreate) && (
          <Button small variant="primary" onPress={() => setEditing("new")} isDisabled={off}>
            Add a Git Source
          </Button>
        )
      }
    >
      {asked.isError && runtime.online && (
        <Note tone="warn">The runtime did not respond. Showing its last report: {explain(asked.error)}</Note>
      )}
      {!isAdmin && (
        <Note>
          Git Sources decide which Applications are deployed. Admins change them, and users with the rights create,
          update and delete on Applications of a project change those of the project.
        </Note>
      )}
      {first ? (
        <Loading lines={4} />
      ) : sources.length === 0 ? (
        <Empty title="No Git Sources yet">
          A Git Source is a repository with Applications. Add one, and the runtime deploys its Applications.
        </Empty>
      ) : (
        <Table label={`Git Sources of ${runtime.name}`} columns={columns} rows={sources} rowKey={(row) => row.name} />
      )}
      {editing && (
        <GitSourceDialog
          name={runtime.name}
          before={editing === "new" ? undefined : editing}
          onClose={() => setEditing(null)}
          onDone={() => void again()}
        />
      )}
      <ConfirmDialog
        title={`Delete the Git Source ${deleting?.name ?? ""}`}
        confirmLabel="Delete"
        danger
        isOpen={deleting !== null}
        onClose={() => setDeleting(null)}
        onConfirm={async () => {
          if (!deleting) return;
          await client(runtime.name).gitSources.deleteGitSource({ name: deleting.name });
          toast(`The Git Source ${deleting.name} is deleted.`);
          await again();
        }}
      >
        <p>
          It is removed from the shared repository. Its Applications stay in the cluster, and so does the repository.
        </p>
      </ConfirmDialog>
    </Panel>
  );
}

function Repository({ source }: { source: GitSource }) {
  const page = webAddress(source.repoUrl);
  return (
    <div className="cell-message">
      {page ? <ExternalLink href={page}>{source.repoUrl}</ExternalLink> : <span>{source.repoUrl}</span>}
      {source.path && <div className="muted">{source.path}</div>}
    </div>
  );
}
