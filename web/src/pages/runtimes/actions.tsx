// What admins do to a runtime.

import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { Runtime } from "../../api/gen/slipway/platform/v1/fleet_pb";
import { platform } from "../../api/transport";
import { useSession } from "../../app/session";
import { CopyBlock } from "../../ui/copy";
import { ConfirmDialog, Dialog } from "../../ui/dialog";
import { Checkbox } from "../../ui/field";
import { ChevronIcon } from "../../ui/icons";
import { Menu } from "../../ui/menu";
import { toast } from "../../ui/toast";
import { CredentialsDialog } from "./credentials";

type Doing = "" | "configuration" | "credentials" | "revoke" | "uninstall" | "delete";

export function RuntimeActions({ runtime }: { runtime: Runtime }) {
  const { isAdmin } = useSession();
  const navigate = useNavigate();
  const [doing, setDoing] = useState<Doing>("");
  const [clean, setClean] = useState(false);
  const [command, setCommand] = useState("");
  const close = () => setDoing("");
  const name = runtime.name;
  if (!isAdmin) return <span className="muted">Admins of the account change runtimes.</span>;
  return (
    <>
      <Menu
        label={`Actions for the runtime ${name}`}
        trigger={
          <>
            Actions <ChevronIcon />
          </>
        }
        entries={[
          {
            id: "configuration",
            label: runtime.configurationRuntime ? "Current configuration runtime" : "Set as configuration runtime",
            isDisabled: runtime.configurationRuntime,
            onAction: () => setDoing("configuration"),
          },
          {
            id: "credentials",
            label: "Update Git credentials",
            isDisabled: !runtime.online,
            onAction: () => setDoing("credentials"),
          },
          { id: "revoke", label: "Revoke its credentials", danger: true, onAction: () => setDoing("revoke") },
          {
            id: "uninstall",
            label: runtime.uninstalling ? "Show the uninstall command" : "Uninstall",
            danger: true,
            onAction: () => (runtime.uninstalling ? setCommand(uninstallCommand(runtime)) : setDoing("uninstall")),
          },
          {
            id: "delete",
            label: runtime.online ? "Delete (when it is offline)" : "Delete",
            danger: true,
            isDisabled: runtime.online,
            onAction: () => setDoing("delete"),
          },
        ]}
      />
      {doing === "credentials" && <CredentialsDialog name={name} back={`/runtimes/${name}`} onClose={close} />}
      <ConfirmDialog
        title={`Make ${name} the configuration runtime`}
        confirmLabel="Set as configuration runtime"
        isOpen={doing === "configuration"}
        onClose={close}
        onConfirm={async () => {
          await platform.runtimes.updateRuntime({ name, configurationRuntime: true });
          toast(`${name} is the configuration runtime.`);
        }}
      >
        <p>
          The configuration runtime writes the shared configuration of all runtimes. An account has exactly one; this
          replaces the current one.
        </p>
      </ConfirmDialog>
      <ConfirmDialog
        title={`Revoke the credentials of ${name}`}
        confirmLabel="Revoke"
        danger
        typed={name}
        isOpen={doing === "revoke"}
        onClose={close}
        onConfirm={async () => {
          await platform.runtimes.revokeCredentials({ name });
          toast(`The credentials of ${name} are revoked.`);
        }}
      >
        <p>
          Within seconds the platform rejects its requests, and its tunnel is closed. It keeps deploying from Git. To
          reconnect it, put a new API key in its Secret.
        </p>
      </ConfirmDialog>
      <ConfirmDialog
        title={`Uninstall ${name}`}
        confirmLabel="Uninstall"
        danger
        typed={name}
        isOpen={doing === "uninstall"}
        onClose={close}
        onConfirm={async () => {
          const answer = await platform.runtimes.uninstallRuntime({ name, cleanSharedRepository: clean });
          setCommand(answer.nextCommand);
        }}
      >
        <p>
          The runtime cleans up; then remove it from the cluster with one Helm command. Your applications keep running,
          but are no longer updated from Git.
        </p>
        <Checkbox isSelected={clean} onChange={setClean}>
          Also remove its files in the shared repository
        </Checkbox>
      </ConfirmDialog>
      <ConfirmDialog
        title={`Delete ${name}`}
        confirmLabel="Delete"
        danger
        typed={name}
        isOpen={doing === "delete"}
        onClose={close}
        onConfirm={async () => {
          await platform.runtimes.deleteRuntime({ name });
          toast(`Deleted ${name}.`);
          await navigate({ to: "/runtimes" });
        }}
      >
        <p>The platform deletes the runtime. Its resources stay in the cluster: remove them with Helm.</p>
      </ConfirmDialog>
      <Dialog title="Finish the uninstallation" isOpen={command !== ""} onClose={() => setCommand("")}>
        <div className="stack">
          <p>The runtime cleans up now. When it is offline, remove it from its cluster:</p>
          <CopyBlock label="Command that removes the runtime" text={command} />
          <p className="muted">Then delete it here.</p>
        </div>
      </Dialog>
    </>
  );
}

/** uninstallCommand is the command that the platform returns for an uninstallation. */
export function uninstallCommand(runtime: Runtime): string {
  return `helm uninstall slipway-runtime --namespace ${runtime.namespace}`;
}
