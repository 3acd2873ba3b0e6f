// One entry of the audit log, whole.

import { timestampDate } from "@bufbuild/protobuf/wkt";
import type { AuditEntry } from "../../api/gen/slipway/platform/v1/identity_pb";
import { Button } from "../../ui/button";
import { Dialog } from "../../ui/dialog";
import { Facts } from "../../ui/page";
import { Status } from "../../ui/status";
import { type AuditFilter, outcomeTone } from "./auditfilter";

interface Props {
  entry: AuditEntry;
  onClose: () => void;
  onFilter: (filter: Partial<AuditFilter>) => void;
}

// present leaves out facts that an entry does not have, as entries of earlier versions.
const present = (...items: [label: string, value: string][]) => items.filter(([, value]) => value !== "");

export function AuditEntryDialog({ entry, onClose, onFilter }: Props) {
  return (
    <Dialog title={entry.action} isOpen onClose={onClose}>
      <Facts
        items={[
          ["When", entry.at && timestampDate(entry.at).toLocaleString()],
          ["Who", entry.actorKind ? `${entry.actor} (${entry.actorKind})` : entry.actor],
          ...present(["User", entry.userEmail], ["Key", entry.keyId]),
          ["On", entry.target],
          ...present(["Runtime", entry.runtime], ["Project", entry.project], ["Revision", entry.revision]),
          [
            "Outcome",
            <Status key="outcome" tone={outcomeTone(entry.outcome)}>
              {entry.outcome}
            </Status>,
          ],
          ...present(["Code", entry.code]),
          ["Detail", entry.detail],
          ["From", entry.address],
          ["Id", <code key="id">{entry.id}</code>],
        ]}
      />
      <div className="row">
        {entry.actor !== "" && (
          <Button small onPress={() => onFilter({ actor: entry.actor })}>
            Filter by actor
          </Button>
        )}
        <Button small onPress={() => onFilter({ action: entry.action })}>
          Filter by action
        </Button>
        {entry.target !== "" && (
          <Button small onPress={() => onFilter({ target: entry.target })}>
            Filter by target
          </Button>
        )}
      </div>
    </Dialog>
  );
}
