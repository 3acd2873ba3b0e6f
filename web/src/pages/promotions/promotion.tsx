// One Promotion, whole: its environments with commits, approvals and messages.

import type { PromotionState, PromotionStepState } from "../../api/gen/slipway/runtime/v1/promotion_pb";
import { Button } from "../../ui/button";
import { Dialog } from "../../ui/dialog";
import { Facts } from "../../ui/page";
import { Status } from "../../ui/status";
import { type Column, Table } from "../../ui/table";
import { Time } from "../../ui/time";
import { shortRevision } from "../applications/parts";
import type { Act } from "./act";
import { actionWord, phaseTone, webAddress } from "./model";

interface PromotionDialogProps {
  promotion: PromotionState;
  online: boolean;
  onAct: (act: Act) => void;
  onClose: () => void;
}

export function PromotionDialog({ promotion, online, onAct, onClose }: PromotionDialogProps) {
  return (
    <Dialog
      title={`Promotion ${promotion.name}`}
      isOpen
      onClose={onClose}
      wide
      footer={
        <>
          {promotion.mayAbort && (
            <Button variant="danger" isDisabled={!online} onPress={() => onAct({ action: "abort", promotion })}>
              Abort
            </Button>
          )}
          <Button onPress={onClose}>Close</Button>
        </>
      }
    >
      <Facts
        items={[
          [
            "Status",
            <Status key="phase" tone={phaseTone(promotion.phase)}>
              {promotion.aborting ? "Aborting" : promotion.phase}
            </Status>,
          ],
          ["Message", promotion.message],
          ["Product", promotion.product],
          ["Flow", promotion.flow],
          ["Version", promotion.version],
          [
            "Source",
            promotion.sourceApplication && (
              <>
                {promotion.sourceApplication} in {promotion.sourceEnvironment} at{" "}
                <code title={promotion.sourceRevision}>{shortRevision(promotion.sourceRevision)}</code>
              </>
            ),
          ],
          ["Started by", promotion.by],
          ["Started", promotion.createdAt && <Time at={promotion.createdAt} />],
          ["Ended", promotion.finishedAt && <Time at={promotion.finishedAt} />],
        ]}
      />
      {promotion.steps.length > 0 && (
        <Table
          label={`Environments of ${promotion.name}`}
          columns={columns(promotion, online, onAct)}
          rows={promotion.steps}
          rowKey={(row) => row.environment}
        />
      )}
    </Dialog>
  );
}

function columns(promotion: PromotionState, online: boolean, onAct: (act: Act) => void): Column<PromotionStepState>[] {
  return [
    { id: "environment", header: "Environment", cell: (row) => row.environment },
    { id: "phase", header: "Status", cell: (row) => <Status tone={phaseTone(row.phase)}>{row.phase}</Status> },
    { id: "action", header: "Action", wideOnly: true, cell: (row) => actionWord(row.action) },
    { id: "commits", header: "Commit", cell: (row) => <Commits step={row} /> },
    { id: "since", header: "Since", wideOnly: true, cell: (row) => <Since step={row} /> },
    {
      id: "approval",
      header: "Approved by",
      cell: (row) =>
        row.mayApprove ? (
          <Button
            small
            isDisabled={!online}
            onPress={() => onAct({ action: "approve", promotion, environment: row.environment })}
          >
            Approve
          </Button>
        ) : (
          row.approvedBy || "–"
        ),
    },
    { id: "message", header: "Message", wideOnly: true, cell: (row) => row.message },
  ];
}

function Since({ step }: { step: PromotionStepState }) {
  const at = step.finishedAt ?? step.startedAt;
  return at ? <Time at={at} /> : <span className="muted">–</span>;
}

function Commits({ step }: { step: PromotionStepState }) {
  if (step.commits.length === 0) return <span className="muted">–</span>;
  return (
    <span className="promotion-commits">
      {step.commits.map((one) => {
        const proposal = webAddress(one.pullRequest);
        return (
          <span key={`${one.repository} ${one.branch}`} title={`${one.repository}\n${one.branch}`}>
            <code>{shortRevision(one.commit) || "–"}</code>{" "}
            {proposal !== "" && (
              <a href={proposal} target="_blank" rel="noreferrer">
                Pull request
              </a>
            )}
          </span>
        );
      })}
    </span>
  );
}
