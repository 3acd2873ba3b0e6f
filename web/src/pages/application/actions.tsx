import { useState } from "react";
import { explain, isDenied } from "../../api/errors";
import { runtime } from "../../api/runtime";
import { Button } from "../../ui/button";
import { ConfirmDialog } from "../../ui/dialog";
import { Checkbox } from "../../ui/field";
import { Menu, type MenuEntry } from "../../ui/menu";
import { Note } from "../../ui/page";
import { toast, toastError } from "../../ui/toast";
import type { Detail, Place } from "./follow";
import { isRunning } from "./manifest";
import type { Rights } from "./rights";
import { SyncDialog } from "./sync";

export interface ActionsProps {
  place: Place;
  detail: Detail;
  rights: Rights;
  /** Why nothing can be done now; empty when it can. */
  blocked: string;
  onDenied: (reason: string) => void;
}

/** Actions is what the user may do with an application. */
export function Actions({ place, detail, rights, blocked, onDenied }: ActionsProps) {
  const [dialog, setDialog] = useState<"sync" | "delete" | "terminate" | null>(null);
  const [busy, setBusy] = useState(false);
  const running = isRunning(detail.manifest);
  const { known, may } = rights;
  const off = blocked !== "" || !known;
  const close = () => setDialog(null);
  const denied = (error: unknown) => {
    if (isDenied(error)) onDenied(explain(error));
  };
  const refresh = async (hard: boolean) => {
    setBusy(true);
    try {
      await runtime(place.runtime).applications.refresh({ ref: refOf(place), hard });
      toast(hard ? "Hard refresh started: Git is fetched and all manifests are rendered again." : "Refresh started.");
    } catch (error) {
      denied(error);
      toastError(error);
    } finally {
      setBusy(false);
    }
  };
  const more: MenuEntry[] = [];
  if (may("sync")) {
    more.push({ id: "hard", label: "Hard refresh", onAction: () => void refresh(true), isDisabled: off });
  }
  if (may("delete")) {
    more.push({ id: "delete", label: "Delete", onAction: () => setDialog("delete"), danger: true, isDisabled: off });
  }
  return (
    <>
      {may("sync") && (
        <Button onPress={() => void refresh(false)} isDisabled={off} isPending={busy}>
          Refresh
        </Button>
      )}
      {may("sync") &&
        (running ? (
          <Button variant="danger" onPress={() => setDialog("terminate")} isDisabled={off}>
            Terminate
          </Button>
        ) : (
          <Button variant="primary" onPress={() => setDialog("sync")} isDisabled={off}>
            Sync
          </Button>
        ))}
      {more.length > 0 && <Menu label="More actions" entries={more} />}
      {dialog === "sync" && (
        <SyncDialog place={place} detail={detail} mayOverride={may("override")} onClose={close} onDenied={denied} />
      )}
      <TerminateDialog place={place} isOpen={dialog === "terminate"} onClose={close} />
      <DeleteDialog place={place} isOpen={dialog === "delete"} onClose={close} />
    </>
  );
}

const refOf = (place: Place) => ({ namespace: place.namespace, name: place.name });

interface AskProps {
  place: Place;
  isOpen: boolean;
  onClose: () => void;
}

function TerminateDialog({ place, isOpen, onClose }: AskProps) {
  return (
    <ConfirmDialog
      title="Terminate operation"
      isOpen={isOpen}
      onClose={onClose}
      confirmLabel="Terminate"
      danger
      onConfirm={() => runtime(place.runtime).applications.terminate({ ref: refOf(place) })}
    >
      <p>Resources that were already applied stay. The others are not changed.</p>
    </ConfirmDialog>
  );
}

function DeleteDialog({ place, isOpen, onClose }: AskProps) {
  const [cascade, setCascade] = useState(true);
  return (
    <ConfirmDialog
      title={`Delete ${place.name}`}
      isOpen={isOpen}
      onClose={onClose}
      confirmLabel="Delete"
      danger
      typed={place.name}
      onConfirm={async () => {
        await runtime(place.runtime).applications.deleteApplication({ ref: refOf(place), cascade });
        toast(`${place.name} is being deleted.`);
      }}
    >
      <Checkbox isSelected={cascade} onChange={setCascade}>
        Delete its resources in the cluster too
      </Checkbox>
      <Note tone="warn">
        {cascade
          ? "All its resources in the cluster are deleted. This cannot be undone."
          : "The resources keep running, but are no longer managed."}{" "}
        An application that is defined in Git is created again by the next sync: remove it from Git first.
      </Note>
    </ConfirmDialog>
  );
}
