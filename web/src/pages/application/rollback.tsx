import { useState } from "react";
import { explain } from "../../api/errors";
import type { HistoryEntry } from "../../api/gen/slipway/runtime/v1/application_pb";
import { runtime } from "../../api/runtime";
import { Button } from "../../ui/button";
import { Dialog } from "../../ui/dialog";
import { Checkbox } from "../../ui/field";
import { Facts, Loading, Note } from "../../ui/page";
import { toast } from "../../ui/toast";
import { firstLine, shortRevision } from "../applications/parts";
import type { Detail, Place } from "./follow";
import { isFinished, isRunning, progressOf } from "./manifest";
import { Phase, Results } from "./phase";

export interface RollbackDialogProps {
  place: Place;
  detail: Detail;
  entry: HistoryEntry;
  onClose: () => void;
}

interface Asked {
  id: string;
  began: string;
  prune: boolean;
}

/** RollbackDialog tries a rollback without changing anything, shows what it would do, and then does it. */
export function RollbackDialog({ place, detail, entry, onClose }: RollbackDialogProps) {
  const [prune, setPrune] = useState(false);
  const [trial, setTrial] = useState<Asked | null>(null);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const progress = trial ? progressOf(detail.manifest, trial.id, trial.began) : null;
  const tried =
    progress?.step === "known" && isFinished(progress.state) && trial?.prune === prune ? progress.state : null;
  const ready = tried?.phase === "Succeeded";

  const ask = async (dryRun: boolean) => {
    setBusy(true);
    setProblem("");
    try {
      const began = detail.manifest?.status?.operationState?.startedAt ?? "";
      const answer = await runtime(place.runtime).applications.rollback({
        ref: { namespace: place.namespace, name: place.name },
        historyId: entry.id,
        exact: true,
        prune,
        dryRun,
      });
      if (dryRun) {
        setTrial({ id: answer.requestId, began, prune });
      } else {
        toast(`The rollback to ${shortRevision(answer.revision)} started.`);
        onClose();
      }
    } catch (error) {
      setProblem(explain(error));
    } finally {
      setBusy(false);
    }
  };
  const waiting =
    trial !== null &&
    progress !== null &&
    !(progress.step === "known" && isFinished(progress.state)) &&
    progress.step !== "lost";
  return (
    <Dialog
      title={`Roll back to sync #${entry.id}`}
      isOpen
      onClose={onClose}
      wide
      footer={
        <>
          <Button onPress={onClose}>Cancel</Button>
          <Button
            variant={ready ? "secondary" : "primary"}
            onPress={() => void ask(true)}
            isPending={busy || waiting}
            isDisabled={isRunning(detail.manifest) && !waiting}
          >
            {trial ? "Dry run again" : "Dry run"}
          </Button>
          <Button
            variant={ready ? "primary" : "secondary"}
            onPress={() => void ask(false)}
            isPending={busy}
            isDisabled={!ready || isRunning(detail.manifest)}
          >
            Roll back
          </Button>
        </>
      }
    >
      <div className="stack">
        <Facts
          items={[
            ["Revision", <code key="revision">{entry.revision}</code>],
            ["Commit", firstLine(entry.commitMessage)],
            ["Author", entry.commitAuthor],
          ]}
        />
        <Checkbox isSelected={prune} onChange={setPrune}>
          Prune: delete objects that are not in that revision
        </Checkbox>
        {!trial && <Note>A dry run comes first: it shows the changes without making them.</Note>}
        <div className="stack" aria-live="polite">
          {waiting && <Loading lines={3} />}
          {progress?.step === "lost" && <Note tone="warn">Another operation replaced the dry run. Try again.</Note>}
          {progress?.step === "known" && isFinished(progress.state) && (
            <>
              <div className="row">
                <Phase value={progress.state.phase ?? ""} />{" "}
                <span>{progress.state.message || "Dry run completed."}</span>
              </div>
              {!tried && <Note tone="warn">The options have changed. Run it again.</Note>}
              <Results rows={progress.state.syncResult?.resources ?? []} dryRun />
            </>
          )}
          {problem && <Note tone="bad">{problem}</Note>}
        </div>
      </div>
    </Dialog>
  );
}
