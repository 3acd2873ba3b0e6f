// Git: the settings of the account, and the integrations of each runtime.

import { useState } from "react";
import { useRuntimes } from "../../api/fleet";
import { Select } from "../../ui/field";
import { Empty, Failure, Loading, Note, Panel } from "../../ui/page";
import { Time } from "../../ui/time";
import { GitSettingsPanel } from "./git-settings";
import { Integrations } from "./integrations";

export function GitSection() {
  return (
    <div className="stack">
      <GitSettingsPanel />
      <RuntimeTokens />
    </div>
  );
}

function RuntimeTokens() {
  const runtimes = useRuntimes();
  const [chosen, setChosen] = useState("");
  if (!runtimes.synced) {
    return (
      <Panel title="Personal tokens and integrations">
        {runtimes.state === "lost" && runtimes.error ? <Failure error={runtimes.error} /> : <Loading lines={6} />}
      </Panel>
    );
  }
  const all = [...runtimes.items.values()].sort((a, b) => a.name.localeCompare(b.name));
  const fallback = all.find((one) => one.configurationRuntime && one.online) ?? all.find((one) => one.online) ?? all[0];
  const picked = runtimes.items.get(chosen) ?? fallback;
  if (!picked) {
    return (
      <Panel title="Personal tokens and integrations">
        <Empty title="No runtimes yet">
          Tokens are stored only in the clusters of runtimes. Once there is a runtime, you register yours here.
        </Empty>
      </Panel>
    );
  }
  return (
    <Panel
      title="Personal tokens and integrations"
      actions={
        all.length > 1 && (
          <div className="runtime-pick">
            <Select
              label="Runtime"
              hideLabel
              value={picked.name}
              onChange={setChosen}
              options={all.map((one) => ({
                value: one.name,
                label: one.online ? one.name : `${one.name} (offline)`,
              }))}
            />
          </div>
        )
      }
    >
      <div className="stack">
        <p className="sentence muted">
          Changes that you make in Git through <strong>{picked.name}</strong> use your own token. It is stored encrypted
          only in the cluster of the runtime.
        </p>
        {picked.online ? (
          <Integrations
            key={picked.name}
            name={picked.name}
            others={all.filter((one) => one.online && one.name !== picked.name).map((one) => one.name)}
          />
        ) : (
          <Note tone="warn">
            The runtime {picked.name} is offline; it was seen last <Time at={picked.lastHeartbeatAt} />. Its tokens can
            be seen and changed when it is back.
          </Note>
        )}
      </div>
    </Panel>
  );
}
