import { useMemo, useState } from "react";
import { explain } from "../../api/errors";
import { runtime } from "../../api/runtime";
import { Button } from "../../ui/button";
import { Dialog } from "../../ui/dialog";
import { Checkbox, SearchField, Select, TextField } from "../../ui/field";
import { Note } from "../../ui/page";
import { Sync } from "../../ui/status";
import { toast } from "../../ui/toast";
import type { Detail, Place } from "./follow";
import type { ResourceStatus } from "./manifest";
import { sourcesOf } from "./manifest";
import { objectOf, type ResourceName, writeObject } from "./resourcename";

interface Options {
  revision: string;
  prune: boolean;
  dryRun: boolean;
  force: boolean;
  replace: boolean;
  applyOutOfSyncOnly: boolean;
  strategy: string;
  syncOptions: string;
}

const defaults: Options = {
  revision: "",
  prune: false,
  dryRun: false,
  force: false,
  replace: false,
  applyOutOfSyncOnly: false,
  strategy: "hook",
  syncOptions: "",
};

/** optionLines parses sync options, one per line or separated by commas. */
export function optionLines(text: string): string[] {
  return text
    .split(/[\n,]/)
    .map((line) => line.trim())
    .filter(Boolean);
}

export interface SyncDialogProps {
  place: Place;
  detail: Detail;
  /** The user may sync to another revision. */
  mayOverride: boolean;
  onClose: () => void;
  onDenied: (error: unknown) => void;
}

/** SyncDialog starts a sync. The page shows its progress. */
export function SyncDialog({ place, detail, mayOverride, onClose, onDenied }: SyncDialogProps) {
  const [options, setOptions] = useState<Options>(defaults);
  const [chosen, setChosen] = useState<ReadonlySet<string> | null>(null);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const resources = useMemo(
    () => (detail.manifest?.status?.resources ?? []).filter((each) => !each.hook),
    [detail.manifest],
  );
  const several = detail.manifest !== null && sourcesOf(detail.manifest).length > 1;
  const set = (change: Partial<Options>) => setOptions({ ...options, ...change });
  const missing = chosen !== null && chosen.size === 0;

  const sync = async () => {
    setBusy(true);
    setProblem("");
    const names: ResourceName[] =
      chosen === null ? [] : resources.map(objectOf).filter((each) => chosen.has(writeObject(each)));
    try {
      await runtime(place.runtime).applications.sync({
        ref: { namespace: place.namespace, name: place.name },
        ...options,
        revision: options.revision.trim(),
        syncOptions: optionLines(options.syncOptions),
        resources: names,
      });
      toast(options.dryRun ? "Dry run started." : "Sync started.");
      onClose();
    } catch (error) {
      setProblem(explain(error));
      onDenied(error);
    } finally {
      setBusy(false);
    }
  };

  return (
    <Dialog
      title={`Sync ${place.name}`}
      isOpen
      onClose={onClose}
      footer={
        <>
          <Button onPress={onClose}>Cancel</Button>
          <Button variant="primary" onPress={() => void sync()} isPending={busy} isDisabled={missing}>
            {options.dryRun ? "Dry run" : "Sync"}
          </Button>
        </>
      }
    >
      <div className="stack">
        {mayOverride && (
          <TextField
            label="Revision"
            value={options.revision}
            onChange={(revision) => set({ revision })}
            placeholder="Target revision of the source"
            isDisabled={several}
            description={
              several
                ? "The application has several sources: change their targetRevision in Git."
                : "A branch, tag or commit. The next comparison uses the source's own revision again."
            }
          />
        )}
        <div className="sync-options">
          <Checkbox isSelected={options.prune} onChange={(prune) => set({ prune })}>
            Prune: delete objects that are no longer in Git
          </Checkbox>
          <Checkbox isSelected={options.dryRun} onChange={(dryRun) => set({ dryRun })}>
            Dry run: change nothing
          </Checkbox>
          <Checkbox
            isSelected={options.applyOutOfSyncOnly}
            onChange={(applyOutOfSyncOnly) => set({ applyOutOfSyncOnly })}
          >
            Apply out-of-sync resources only
          </Checkbox>
          <Checkbox isSelected={options.replace} onChange={(replace) => set({ replace })}>
            Replace instead of apply
          </Checkbox>
          <Checkbox isSelected={options.force} onChange={(force) => set({ force })}>
            Force: delete and recreate objects that cannot be updated
          </Checkbox>
        </div>
        {(options.force || options.replace) && <Note tone="warn">Force and replace can cause a short outage.</Note>}
        <Select
          label="Strategy"
          value={options.strategy}
          onChange={(strategy) => set({ strategy })}
          options={[
            { value: "hook", label: "Run hooks" },
            { value: "apply", label: "Apply alone, without hooks" },
          ]}
        />
        <TextField
          label="Sync options"
          rows={2}
          value={options.syncOptions}
          onChange={(syncOptions) => set({ syncOptions })}
          placeholder="CreateNamespace=true"
          description="One per line. They override the application's sync options."
        />
        <ChooseResources resources={resources} chosen={chosen} onChange={setChosen} />
        {problem && <Note tone="bad">{problem}</Note>}
      </div>
    </Dialog>
  );
}

interface ChooseProps {
  resources: ResourceStatus[];
  chosen: ReadonlySet<string> | null;
  onChange: (chosen: ReadonlySet<string> | null) => void;
}

// So many are listed; the search finds the rest.
const mostListed = 200;

function ChooseResources({ resources, chosen, onChange }: ChooseProps) {
  const [text, setText] = useState("");
  if (resources.length === 0) return null;
  const fitting = resources.filter((each) => `${each.kind}/${each.name}`.toLowerCase().includes(text.toLowerCase()));
  const toggle = (key: string) => {
    const next = new Set(chosen);
    if (!next.delete(key)) next.add(key);
    onChange(next);
  };
  const outOfSync = resources.filter((each) => each.status === "OutOfSync").map((each) => writeObject(objectOf(each)));
  return (
    <div className="stack">
      <Checkbox isSelected={chosen !== null} onChange={(some) => onChange(some ? new Set(outOfSync) : null)}>
        Selected resources only {chosen !== null && `(${chosen.size} of ${resources.length})`}
      </Checkbox>
      {chosen !== null && (
        <fieldset className="choose">
          <legend className="visually-hidden">Resources to sync</legend>
          {resources.length > 10 && <SearchField label="Find resources" value={text} onChange={setText} />}
          <div className="choose-list">
            {fitting.slice(0, mostListed).map((each) => {
              const key = writeObject(objectOf(each));
              return (
                <label key={key} className="choose-row">
                  <input type="checkbox" checked={chosen.has(key)} onChange={() => toggle(key)} />
                  <span className="spread">
                    <strong>{each.kind}</strong> {each.namespace ? `${each.namespace}/${each.name}` : each.name}
                  </span>
                  <Sync value={each.status ?? ""} />
                </label>
              );
            })}
          </div>
          {fitting.length > mostListed && <p className="muted">{fitting.length - mostListed} more: search for them.</p>}
        </fieldset>
      )}
    </div>
  );
}
