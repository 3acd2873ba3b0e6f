// How the platform reaches the runtime.

import { RadioCards, TextField } from "../../ui/field";
import { accessProblems, type Draft } from "./draft";
import type { Mode } from "./install-command";

const modes: { value: Mode; title: string; description: string }[] = [
  {
    value: "tunnel",
    title: "Tunnel",
    description:
      "The runtime opens the connection to the platform. Nothing in the cluster must be reachable. Recommended to start with.",
  },
  {
    value: "ingress",
    title: "Ingress",
    description: "The platform calls the runtime through an Ingress controller of the cluster.",
  },
  {
    value: "http-route",
    title: "HTTPRoute",
    description: "The platform calls the runtime through a Gateway of the Gateway API.",
  },
  {
    value: "mesh",
    title: "Service mesh",
    description: "A service mesh such as Istio serves the runtime at your URL.",
  },
];

export interface AccessStepProps {
  draft: Draft;
  change: (part: Partial<Draft>) => void;
}

export function AccessStep({ draft, change }: AccessStepProps) {
  const problems = accessProblems(draft);
  // An empty field is not an error before the user has typed.
  const shown = (value: string, problem: string | undefined) => (value !== "" && problem ? problem : undefined);
  return (
    <div className="stack">
      <RadioCards
        label="Access mode"
        value={draft.mode}
        onChange={(value) => change({ mode: modes.find((mode) => mode.value === value)?.value ?? "tunnel" })}
        options={modes}
      />
      {(draft.mode === "ingress" || draft.mode === "http-route") && (
        <div className="fields-2">
          <TextField
            label="Host"
            value={draft.host}
            onChange={(host) => change({ host: host.trim() })}
            autoComplete="off"
            placeholder="prod.example.com"
            description="It resolves to the controller, with a certificate that browsers trust."
            error={shown(draft.host, problems.host)}
            isRequired
          />
          {draft.mode === "ingress" ? (
            <TextField
              label="IngressClass"
              value={draft.ingressClass}
              onChange={(ingressClass) => change({ ingressClass: ingressClass.trim() })}
              autoComplete="off"
              placeholder="nginx"
              description="As listed by kubectl get ingressclass."
              error={shown(draft.ingressClass, problems.ingressClass)}
              isRequired
            />
          ) : (
            <TextField
              label="Gateway"
              value={draft.gateway}
              onChange={(gateway) => change({ gateway: gateway.trim() })}
              autoComplete="off"
              placeholder="gateways/public"
              description="As name, or namespace/name."
              error={shown(draft.gateway, problems.gateway)}
              isRequired
            />
          )}
        </div>
      )}
      {draft.mode === "mesh" && (
        <TextField
          label="URL of the runtime"
          type="url"
          value={draft.ingressURL}
          onChange={(ingressURL) => change({ ingressURL: ingressURL.trim() })}
          autoComplete="off"
          placeholder="https://prod.example.com"
          description="The mesh routes its paths /app-proxy, /webhooks and /workflows to the Service internal-router, port 80. slipway runtime mesh generate --runtime NAME --gateway GATEWAY prints the VirtualService."
          error={shown(draft.ingressURL, problems.url)}
          isRequired
        />
      )}
    </div>
  );
}
