// One deployment, whole.

import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";
import { Link } from "@tanstack/react-router";
import type { Deployment } from "../../api/gen/slipway/platform/v1/history_pb";
import { Dialog } from "../../ui/dialog";
import { Facts, Note } from "../../ui/page";
import { Status } from "../../ui/status";
import { betweenWord, initiatorWord, resultOf } from "./words";

const moment = (at: Timestamp | undefined): string => (at ? timestampDate(at).toLocaleString() : "");

export function DeploymentDialog({ deployment, onClose }: { deployment: Deployment; onClose: () => void }) {
  const { runtime, namespace, name } = deployment;
  const { label, tone } = resultOf(deployment);
  return (
    <Dialog title={`Deployment of ${name}`} isOpen onClose={onClose}>
      {deployment.message !== "" && <Note tone={deployment.succeeded ? "off" : "bad"}>{deployment.message}</Note>}
      <Facts
        items={[
          [
            "Application",
            <Link key="application" to="/applications/$runtime/$namespace/$name" params={{ runtime, namespace, name }}>
              {namespace}/{name}
            </Link>,
          ],
          ["Runtime", runtime],
          ["Project", deployment.project],
          [
            "Result",
            <Status key="result" tone={tone}>
              {label}
            </Status>,
          ],
          ...(deployment.rolledBackAt
            ? ([["Rolled back", moment(deployment.rolledBackAt)]] satisfies [string, string][])
            : []),
          ["Revision", <code key="revision">{deployment.revision}</code>],
          ["Replaced", deployment.previousRevision && <code>{deployment.previousRevision}</code>],
          ["Committed", moment(deployment.committedAt)],
          ["Started", moment(deployment.startedAt)],
          ["Finished", moment(deployment.finishedAt)],
          ["Took", betweenWord(deployment.startedAt, deployment.finishedAt)],
          ["By", initiatorWord(deployment)],
        ]}
      />
    </Dialog>
  );
}
