// The environments of a flow in their order, with what is in each and what comes next.

import { Link } from "@tanstack/react-router";
import type {
  PromotionApplication,
  PromotionEnvironment,
  PromotionFlowState,
  PromotionState,
} from "../../api/gen/slipway/runtime/v1/promotion_pb";
import { Button } from "../../ui/button";
import { Note } from "../../ui/page";
import { Dot, Status, type Tone } from "../../ui/status";
import { Time } from "../../ui/time";
import { shortRevision } from "../applications/parts";
import type { Act } from "./act";
import { nextStep, running, versionsOf } from "./model";

interface FlowProps {
  runtime: string;
  product: string;
  flow: PromotionFlowState;
  /** Those of the product, the newest first. */
  promotions: PromotionState[];
  online: boolean;
  onAct: (act: Act) => void;
  onOpen: (promotion: string) => void;
}

export function Flow({ runtime, product, flow, promotions, online, onAct, onOpen }: FlowProps) {
  const promotion = running(product, flow, promotions);
  return (
    <section className="stack" aria-label={`Flow ${flow.name}`}>
      <div className="promotion-head">
        <h3>{flow.name}</h3>
        {promotion && (
          <button type="button" className="link-button" onClick={() => onOpen(promotion.name)}>
            {promotion.name}
          </button>
        )}
        <span className="spread" />
        {flow.mayStart && (
          <Button
            small
            variant="primary"
            isDisabled={!online}
            onPress={() => onAct({ action: "start", product, flow: flow.name, from: flow.environments[0] })}
            aria-label={`Start a promotion of ${product} with ${flow.name}`}
          >
            Start a promotion
          </Button>
        )}
      </div>
      {flow.problem !== "" && <Note tone="warn">{flow.problem}</Note>}
      <ol className="promotion-flow" aria-label={`Environments of ${product}`}>
        {flow.environments.map((environment) => (
          <li key={environment.name} className="promotion-environment">
            <EnvironmentHead environment={environment} />
            {environment.applications.map((app) => (
              <Application key={`${app.ref?.namespace}/${app.ref?.name}`} runtime={runtime} app={app} onOpen={onOpen} />
            ))}
            {environment.applications.length === 0 && <p className="muted">No application that you may see.</p>}
            <Next environment={environment} flow={flow} promotion={promotion} online={online} onAct={onAct} />
          </li>
        ))}
      </ol>
    </section>
  );
}

function EnvironmentHead({ environment }: { environment: PromotionEnvironment }) {
  return (
    <>
      <h4>
        {environment.name} {environment.production && <Status tone="off">production</Status>}
      </h4>
      <strong className="promotion-version">{versionsOf(environment).join(", ") || "–"}</strong>
    </>
  );
}

const tones: Record<string, Tone> = { Healthy: "good", Progressing: "progress", Degraded: "bad", Missing: "warn" };

interface ApplicationProps {
  runtime: string;
  app: PromotionApplication;
  onOpen: (promotion: string) => void;
}

function Application({ runtime, app, onOpen }: ApplicationProps) {
  const { namespace = "", name = "" } = app.ref ?? {};
  return (
    <div className="promotion-application">
      <span className="promotion-dotted">
        <Dot tone={tones[app.health] ?? "off"} label={app.health || "Unknown"} />
        <Link to="/applications/$runtime/$namespace/$name" params={{ runtime, namespace, name }} preload={false}>
          {name}
        </Link>
        <code title={app.revision}>{shortRevision(app.revision)}</code>
      </span>
      <span className="muted promotion-small">
        {app.since ? (
          <>
            since <Time at={app.since} />
          </>
        ) : (
          "never synced"
        )}
        {app.since && ` by ${app.by || "the sync policy"}`}
        {app.promotion !== "" && (
          <>
            {", "}
            <button type="button" className="link-button" onClick={() => onOpen(app.promotion)}>
              {app.promotion}
            </button>
          </>
        )}
      </span>
    </div>
  );
}

interface NextProps {
  environment: PromotionEnvironment;
  flow: PromotionFlowState;
  promotion: PromotionState | undefined;
  online: boolean;
  onAct: (act: Act) => void;
}

function Next({ environment, flow, promotion, online, onAct }: NextProps) {
  const next = nextStep(environment, flow, promotion);
  const approve = next.approve;
  return (
    <div className="promotion-next">
      <p className={next.tone === "off" ? "muted" : `tone-${next.tone}`}>{next.text}</p>
      {environment.gates.length > 0 && <p className="muted promotion-small">Gates: {environment.gates.join(", ")}</p>}
      {approve && (
        <Button
          small
          isDisabled={!online}
          onPress={() => onAct({ action: "approve", promotion: approve.promotion, environment: environment.name })}
          aria-label={`Approve ${approve.promotion.name} for ${environment.name}`}
        >
          Approve
        </Button>
      )}
    </div>
  );
}
