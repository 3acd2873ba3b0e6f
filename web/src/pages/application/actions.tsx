import { useState } from "react";
import { explain, isDenied } from "../../api/errors";
import { runtime } from "../../api/runtime";
import { Button } from "../../ui/button";
import { ConfirmDialog } from "../../ui/dialog";
import { Checkbox } from "../../ui/field";
import { Menu } from "../../ui/menu";
import { Note } from "../../ui/page";
import { toast, toastError } from "../../ui/toast";
import type { Detail, Place } from "./follow";
import { isRunning } from "./manifest";
import { SyncDialog } from "./sync";

export interface ActionsProps {
  place: Place;
  detail: Detail;
  /** Why nothing can be done now; empty when it can. */
  blocked: string;
  onDenied: (reason: string) => void;
}

/** Actions is what can be done with an application. */
export function Actions({ place, detail, blocked, onDenied }: ActionsProps) {
  const [dialog, setDialog] = useState<"sync" | "delete" | "terminate" | null>(null);
  const [busy, setBusy] = useState(false);
  const running = isRunning(detail.manifest);
  const off = blocked !== "";
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
  return (
    <>
      <Button onPress={() => void refresh(false)} isDisabled={off} isPending={busy}>
        Refresh
      </Button>
      {running ? (
        <Button variant="danger" onPress={() => setDialog("terminate")} isDisabled={off}>
          Terminate
        </Button>
      ) : (
        <Button variant="primary" onPress={() => setDialog("sync")} isDisabled={off}>
          Sync
        </Button>
      )}
      <Menu
        label="More actions"
        entries={[
          { id: "hard", label: "Hard refresh", onAction: () => void refresh(true), isDisabled: off },
          { id: "delete", label: "Delete", onAction: () => setDialog("delete"), danger: true, isDisabled: off },
        ]}
      />
      {dialog === "sync" && <SyncDialog place={place} detail={detail} onClose={close} onDenied={denied} />}
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
