// The components of a runtime, with their logs.

import { useEffect, useRef, useState } from "react";
import { explain } from "../../api/errors";
import type { Component, Runtime } from "../../api/gen/slipway/platform/v1/fleet_pb";
import { runtime as client } from "../../api/runtime";
import { useSession } from "../../app/session";
import { Button } from "../../ui/button";
import { Dialog } from "../../ui/dialog";
import { LogView } from "../../ui/log";
import { LogBuffer, type LogLine } from "../../ui/logbuffer";
import { Empty, Note, Panel } from "../../ui/page";
import { Health, healthWord, Sync, syncWord } from "../../ui/status";
import { type Column, Table } from "../../ui/table";
import { toastError } from "../../ui/toast";
import { downloadLogs } from "./logs";
import { componentOf } from "./model";

export function ComponentsTab({ runtime }: { runtime: Runtime }) {
  const { isAdmin } = useSession();
  const [viewing, setViewing] = useState("");
  const [fetching, setFetching] = useState("");
  const stop = useRef<AbortController | null>(null);
  useEffect(() => () => stop.current?.abort(), []);
  const download = async (component: string) => {
    stop.current = new AbortController();
    setFetching(component || "all");
    try {
      await downloadLogs(runtime.name, component, stop.current.signal);
    } catch (error) {
      if (!stop.current.signal.aborted) toastError(error);
    } finally {
      setFetching("");
    }
  };
  const columns: Column<Component>[] = [
    { id: "name", header: "Component", cell: (row) => <strong>{row.name}</strong> },
    {
      id: "health",
      header: "Health",
      cell: (row) => (
        <div className="cell-message">
          <Health value={healthWord(row.health)} />
          {row.healthMessage && <div className="muted">{row.healthMessage}</div>}
        </div>
      ),
    },
    { id: "sync", header: "Sync", wideOnly: true, cell: (row) => <Sync value={syncWord(row.sync)} /> },
    { id: "version", header: "Version", wideOnly: true, cell: (row) => row.version || "–" },
  ];
  if (isAdmin) {
    columns.push({
      id: "logs",
      header: "Logs",
      cell: (row) => (
        <div className="cell-actions">
          <Button
            small
            onPress={() => setViewing(componentOf(row.name))}
            isDisabled={!runtime.online}
            aria-label={`Show the logs of ${row.name}`}
          >
            Show
          </Button>
          <Button
            small
            onPress={() => void download(componentOf(row.name))}
            isPending={fetching === componentOf(row.name)}
            isDisabled={!runtime.online || fetching !== ""}
            aria-label={`Download the logs of ${row.name}`}
          >
            Download
          </Button>
        </div>
      ),
    });
  }
  return (
    <Panel
      title="Runtime components"
      flush
      actions={
        isAdmin && (
          <Button
            small
            onPress={() => void download("")}
            isPending={fetching === "all"}
            isDisabled={!runtime.online || fetching !== ""}
          >
            {fetching === "all" ? "Collecting the logs…" : "Download all logs"}
          </Button>
        )
      }
    >
      {!isAdmin && <Note>Logs of the runtime are for admins of the account.</Note>}
      {runtime.components.length === 0 ? (
        <Empty title="No components reported">
          Components are the Deployments of the runtime in its cluster. A runtime that runs as a program has none.
        </Empty>
      ) : (
        <Table
          label={`Components of ${runtime.name}`}
          columns={columns}
          rows={runtime.components}
          rowKey={(row) => row.name}
        />
      )}
      {viewing && <ComponentLog name={runtime.name} component={viewing} onClose={() => setViewing("")} />}
    </Panel>
  );
}

function ComponentLog({ name, component, onClose }: { name: string; component: string; onClose: () => void }) {
  const [lines, setLines] = useState<LogLine[]>([]);
  const [total, setTotal] = useState(0);
  const [state, setState] = useState("Reading…");
  useEffect(() => {
    const stop = new AbortController();
    const buffer = new LogBuffer();
    const text = new TextDecoder();
    const show = () => {
      setLines(buffer.snapshot());
      setTotal(buffer.total);
    };
    const read = async () => {
      let shown = Date.now();
      try {
        const stream = client(name).runtime.componentLogs({ component, tailLines: 1000n }, { signal: stop.signal });
        for await (const message of stream) {
          const line = text.decode(message.data);
          const [, time = "", rest = line] = /^(\d{4}-\S+Z) (.*)$/s.exec(line) ?? [];
          buffer.push({ at: time ? new Date(time) : undefined, source: message.pod, text: rest });
          if (Date.now() - shown > 100) {
            shown = Date.now();
            show();
          }
        }
        setState("The log is empty.");
      } catch (error) {
        if (!stop.signal.aborted) setState(explain(error));
      }
      if (!stop.signal.aborted) show();
    };
    void read();
    return () => stop.abort();
  }, [name, component]);
  return (
    <Dialog title={`Logs of ${component}`} isOpen wide onClose={onClose}>
      <LogView label={`Logs of ${component}`} lines={lines} total={total} showSource showTime empty={state} />
    </Dialog>
  );
}
