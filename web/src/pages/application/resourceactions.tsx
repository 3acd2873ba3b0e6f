import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { explain } from "../../api/errors";
import type { ResourceAction } from "../../api/gen/slipway/runtime/v1/application_pb";
import { runtime } from "../../api/runtime";
import { TextField } from "../../ui/field";
import { FormDialog } from "../../ui/form-dialog";
import { Menu, type MenuEntry } from "../../ui/menu";
import { toast } from "../../ui/toast";
import { labelOf } from "./actionlabel";
import type { Place } from "./follow";
import { actionsQuery } from "./queries";
import type { ResourceName } from "./resourcename";

export interface ResourceActionsProps {
  place: Place;
  object: ResourceName;
  /** Loads the actions when the menu opens, and shows the menu also without any. */
  lazy?: boolean;
  excludeFromTabOrder?: boolean;
}

/** ResourceActions is a menu of the actions of one resource that the user may run. */
export function ResourceActions({ place, object, lazy = false, excludeFromTabOrder = false }: ResourceActionsProps) {
  const [open, setOpen] = useState(false);
  const [chosen, setChosen] = useState<ResourceAction | null>(null);
  const { data, error } = useQuery({ ...actionsQuery(place, object), enabled: open || !lazy });
  const allowed = data?.actions.filter((action) => action.allowed) ?? [];
  const entries: MenuEntry[] = allowed.map((action) => ({
    id: action.name,
    label: labelOf(action),
    onAction: () => setChosen(action),
    isDisabled: action.disabled,
  }));
  if (entries.length === 0) {
    if (!lazy) return null;
    const label = error ? explain(error) : data ? "No actions" : "Loading";
    entries.push({ id: "", label, onAction: () => undefined, isDisabled: true });
  }
  return (
    <>
      <Menu
        label={`Actions for ${object.kind} ${object.name}`}
        entries={entries}
        onOpenChange={setOpen}
        excludeFromTabOrder={excludeFromTabOrder}
      />
      {chosen && <RunDialog place={place} object={object} action={chosen} onClose={() => setChosen(null)} />}
    </>
  );
}

interface RunDialogProps {
  place: Place;
  object: ResourceName;
  action: ResourceAction;
  onClose: () => void;
}

function RunDialog({ place, object, action, onClose }: RunDialogProps) {
  const [parameters, setParameters] = useState<Record<string, string>>({});
  const label = labelOf(action);
  const missing = action.parameters.find((name) => !parameters[name]);
  const run = async () => {
    await runtime(place.runtime).applications.runAction({
      ref: { namespace: place.namespace, name: place.name },
      object,
      action: action.name,
      parameters,
    });
    toast(`${label}: ${object.kind} ${object.name} was changed.`);
  };
  return (
    <FormDialog
      title={`${label} ${object.kind} ${object.name}`}
      submitLabel={label}
      onClose={onClose}
      problem={missing ? `Enter ${missing}.` : ""}
      onSubmit={run}
    >
      <p>The action changes the resource in the cluster, and nothing in Git.</p>
      {action.parameters.map((name) => (
        <TextField
          key={name}
          label={name}
          value={parameters[name] ?? ""}
          onChange={(value) => setParameters({ ...parameters, [name]: value })}
        />
      ))}
    </FormDialog>
  );
}
