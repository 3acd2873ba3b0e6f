// Type a URL, and see what serves it and why.

import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useEffect, useId, useState } from "react";
import { explain as explainError } from "../../api/errors";
import type { ExplainResponse } from "../../api/gen/slipway/runtime/v1/traffic_pb";
import { Button } from "../../ui/button";
import { CopyBlock } from "../../ui/copy";
import { Select, TextField } from "../../ui/field";
import { Loading, Note, Panel } from "../../ui/page";
import { Health, Status, Sync, type Tone } from "../../ui/status";
import { Table } from "../../ui/table";
import { ByService, Step } from "./chain";
import { trafficClient } from "./live";
import { ApplicationLink, BackendLine, CommitFacts, objectWord, placeWord } from "./parts";

const methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"].map((value) => ({ value, label: value }));

export interface Question {
  url: string;
  method: string;
}

export interface ExplainProps {
  runtime: string;
  edge: string;
  question: Question | undefined;
  onAsk: (question: Question | undefined) => void;
}

/** withScheme adds what people leave out. */
export function withScheme(url: string): string {
  const typed = url.trim();
  return typed === "" || /^[a-z][a-z0-9+.-]*:\/\//i.test(typed) ? typed : `https://${typed}`;
}

export function Explain({ runtime, edge, question, onAsk }: ExplainProps) {
  const [url, setUrl] = useState(question?.url ?? "");
  const [method, setMethod] = useState(question?.method ?? "GET");
  const [headers, setHeaders] = useState("");
  // Headers may have credentials: they are in no address of the console.
  const [asked, setAsked] = useState<string[]>([]);
  const result = useId();
  const present = question?.url ?? "";
  useEffect(() => {
    if (present !== "") setUrl(present);
  }, [present]);
  const answer = useQuery({
    queryKey: ["explain", runtime, edge, question, asked],
    queryFn: ({ signal }) =>
      trafficClient(runtime).explain(
        { url: question?.url ?? "", method: question?.method ?? "GET", headers: asked, edge },
        { signal },
      ),
    enabled: question !== undefined,
    retry: false,
    gcTime: 0,
  });
  const known = question && !answer.error ? answer.data : undefined;
  const said = known && verdict(known);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const complete = withScheme(url);
    setUrl(complete);
    setAsked(
      headers
        .split("\n")
        .map((line) => line.trim())
        .filter(Boolean),
    );
    if (complete === question?.url && method === question.method) void answer.refetch();
    else onAsk(complete === "" ? undefined : { url: complete, method });
  };
  return (
    <Panel title="Which route serves this URL?">
      <form className="traffic-ask" onSubmit={submit} aria-describedby={result}>
        <TextField label="URL" value={url} onChange={setUrl} placeholder="https://shop.example.com/cart" />
        <Select label="Method" value={method} onChange={setMethod} options={methods} />
        <Button type="submit" variant="primary" isPending={answer.isFetching}>
          Explain
        </Button>
      </form>
      <details className="traffic-more">
        <summary>Headers</summary>
        <TextField
          label="Request headers"
          description="One per line, as Name: value. No request is sent."
          value={headers}
          onChange={setHeaders}
          rows={3}
        />
      </details>
      <div id={result} className="traffic-verdict" aria-live="polite">
        {question && answer.error && <Note tone="bad">{explainError(answer.error)}</Note>}
        {said && <Note tone={said.tone}>{said.text}</Note>}
      </div>
      {question && answer.isPending && <Loading lines={3} />}
      {known && <Answer runtime={runtime} answer={known} />}
    </Panel>
  );
}

/** verdict summarizes the result in one sentence. */
export function verdict(answer: ExplainResponse): { tone: Tone; text: string } {
  if (answer.refused) {
    return {
      tone: "bad",
      text: `Rejected with ${answer.status} before routing: ${answer.message}.`,
    };
  }
  if (!answer.route) return { tone: "warn", text: `No route matches: the edge returns ${answer.status || 404}.` };
  if (answer.status > 0) {
    const why = answer.message === "" ? "" : ` ${answer.message}`;
    return {
      tone: answer.status >= 400 ? "bad" : "good",
      text: `${objectWord(answer.route)} matches, and the edge returns ${answer.status} without a backend.${why}`,
    };
  }
  const ready = answer.backends.reduce((sum, each) => sum + (each.backend?.readyEndpoints ?? 0), 0);
  if (ready === 0) {
    return {
      tone: "bad",
      text: `${objectWord(answer.route)} matches, but no endpoint is ready: the edge returns 503.`,
    };
  }
  return { tone: "good", text: `${objectWord(answer.route)} matches: ${answer.why}.` };
}

function Answer({ runtime, answer }: { runtime: string; answer: ExplainResponse }) {
  const others = answer.steps.filter((step) => step.verdict !== "wins");
  return (
    <div className="stack traffic-answer">
      {answer.rewritten && (
        <p className="muted">
          The normalized path is <code>{answer.path}</code>: it is used for matching and forwarded.
        </p>
      )}
      {answer.refusals.map((refusal) => (
        <Note key={refusal.field + refusal.message} tone="warn">
          {refusal.field}: {refusal.message}
        </Note>
      ))}
      {answer.route && (
        <ol className="traffic-chain" aria-label="From the commit to the endpoints">
          <Step title="Commit">
            <CommitFacts application={answer.application} />
          </Step>
          <Step title="Application">
            <p>
              <ApplicationLink runtime={runtime} application={answer.application} />
            </p>
            {answer.application && (
              <p className="row">
                <Health value={answer.application.health} /> <Sync value={answer.application.sync} />
              </p>
            )}
          </Step>
          <Step title={answer.route.kind || "File"}>
            <p>{objectWord(answer.route)}</p>
            {answer.applicationByService && <ByService />}
            <p className="muted mono traffic-small">{placeWord(answer.route)}</p>
          </Step>
          <Step title="Route">
            <p>{answer.why}</p>
            <p className="muted">
              Entry point {answer.entryPoint}, {answer.tls ? "encrypted" : "plain"}
            </p>
            {answer.policies.length > 0 && <p className="muted">Policies: {answer.policies.join(", ")}</p>}
          </Step>
          <Step title="Backends">
            {answer.backends.length === 0 && <p className="muted">The edge responds without a backend.</p>}
            {answer.backends.map((each) => (
              <div key={`${each.backend?.namespace}/${each.backend?.service}:${each.backend?.port}`}>
                {each.backend && <BackendLine backend={each.backend} shares={answer.backends.length > 1} />}
                <ul className="traffic-endpoints">
                  {each.endpoints.map((endpoint) => (
                    <li key={endpoint.address} className="mono traffic-small">
                      {endpoint.address} {endpoint.health === "ready" ? endpoint.state : endpoint.health}
                    </li>
                  ))}
                </ul>
              </div>
            ))}
          </Step>
        </ol>
      )}
      {others.length > 0 && (
        <details className="traffic-more" open={!answer.route}>
          <summary>Why other routes of this host do not match ({others.length})</summary>
          <Table
            label="Other routes"
            columns={[
              { id: "route", header: "Route", cell: (step) => step.name || "–" },
              {
                id: "verdict",
                header: "Result",
                cell: (step) => (
                  <Status tone={step.verdict === "outranked" ? "progress" : "off"}>{step.verdict}</Status>
                ),
              },
              { id: "why", header: "Why", cell: (step) => step.why },
            ]}
            rows={others}
            rowKey={(step) => step.name + step.why}
          />
        </details>
      )}
      <details className="traffic-more">
        <summary>As text</summary>
        <CopyBlock label="The explanation" text={answer.text} />
      </details>
    </div>
  );
}
