// The actions of promotions, each with what it does, before it is done.

import type { PromotionEnvironment, PromotionState } from "../../api/gen/slipway/runtime/v1/promotion_pb";
import { FormDialog } from "../../ui/form-dialog";
import { toast } from "../../ui/toast";
import { versionsOf } from "./model";
import { promotionClient, refreshPromotions } from "./queries";

/** Act is an action that a person has chosen. */
export type Act =
  | { action: "start"; product: string; flow: string; from: PromotionEnvironment | undefined }
  | { action: "approve"; promotion: PromotionState; environment: string }
  | { action: "abort"; promotion: PromotionState };

interface ActDialogProps<A extends Act = Act> {
  runtime: string;
  act: A;
  onClose: () => void;
}

export function ActDialog({ act, ...rest }: ActDialogProps) {
  switch (act.action) {
    case "start":
      return <StartDialog act={act} {...rest} />;
    case "approve":
      return <ApproveDialog act={act} {...rest} />;
    case "abort":
      return <AbortDialog act={act} {...rest} />;
  }
}

function StartDialog({ runtime, act, onClose }: ActDialogProps<Extract<Act, { action: "start" }>>) {
  const { product, flow, from } = act;
  const start = async () => {
    const { name } = await promotionClient(runtime).startPromotion({ product, flow });
    toast(`The promotion ${name} started.`);
    await refreshPromotions(runtime);
  };
  return (
    <FormDialog title={`Start a promotion of ${product}`} submitLabel="Start" onClose={onClose} onSubmit={start}>
      <p>
        What {from?.name ?? "the first environment"} has, {from ? versionsOf(from).join(", ") : "its version"}, goes
        through the environments of {flow}. It begins when the application there is synced and healthy, and goes on when
        the gates of each environment are open.
      </p>
    </FormDialog>
  );
}

function ApproveDialog({ runtime, act, onClose }: ActDialogProps<Extract<Act, { action: "approve" }>>) {
  const { promotion, environment } = act;
  const approve = async () => {
    await promotionClient(runtime).approvePromotion({ name: promotion.name, environment });
    toast(`${promotion.name} is approved for ${environment}.`);
    await refreshPromotions(runtime);
  };
  return (
    <FormDialog
      title={`Approve ${promotion.name} for ${environment}`}
      submitLabel="Approve"
      onClose={onClose}
      onSubmit={approve}
    >
      <p>
        {promotion.version || "The version"} of {promotion.product} is written to {environment} when it is its turn,
        with your name in the record. An approval cannot be taken back.
      </p>
    </FormDialog>
  );
}

function AbortDialog({ runtime, act, onClose }: ActDialogProps<Extract<Act, { action: "abort" }>>) {
  const { promotion } = act;
  const abort = async () => {
    await promotionClient(runtime).abortPromotion({ name: promotion.name });
    toast(`${promotion.name} is going to be aborted.`);
    await refreshPromotions(runtime);
  };
  return (
    <FormDialog title={`Abort ${promotion.name}`} submitLabel="Abort" onClose={onClose} onSubmit={abort}>
      <p>Nothing more is written. What was written stays, in all environments.</p>
    </FormDialog>
  );
}
