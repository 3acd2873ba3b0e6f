// The checks of an installed runtime, each shown as soon as it has ended.

import { useEffect, useState } from "react";
import { explain, isPassing } from "../../api/errors";
import type { PreflightResponse } from "../../api/gen/slipway/runtime/v1/runtime_pb";
import { runtime } from "../../api/runtime";
import { Button } from "../../ui/button";
import { CopyBlock } from "../../ui/copy";
import { Note } from "../../ui/page";
import { Status, type Tone } from "../../ui/status";
import { isCommand, summarise } from "./preflight";
import "./wizard.css";

const states: Record<string, { tone: Tone; word: string }> = {
  ok: { tone: "good", word: "Good" },
  warning: { tone: "warn", word: "Warning" },
  error: { tone: "bad", word: "Error" },
  skipped: { tone: "off", word: "Not needed" },
};

interface Run {
  results: PreflightResponse[];
  total: number;
  ended: boolean;
  problem: string;
}

const begun: Run = { results: [], total: 0, ended: false, problem: "" };

// A runtime reports online a moment before it accepts requests.
const patience = 10;
const pause = 1_000;

// usePreflight runs the checks once for each number of tries.
function usePreflight(name: string, tries: number): Run {
  const [run, setRun] = useState(begun);
  useEffect(() => {
    const stop = new AbortController();
    setRun(begun);
    let again: ReturnType<typeof setTimeout> | undefined;
    const follow = async (left: number) => {
      let heard = false;
      try {
        for await (const result of runtime(name).runtime.preflight({}, { signal: stop.signal })) {
          heard = true;
          setRun((old) => ({ ...old, total: result.total, results: [...old.results, result] }));
        }
        setRun((old) => ({ ...old, ended: true }));
      } catch (error) {
        if (stop.signal.aborted) return;
        if (isPassing(error) && !heard && left > 0) {
          again = setTimeout(() => void follow(left - 1), pause);
          return;
        }
        setRun((old) => ({ ...old, ended: true, problem: explain(error) }));
      }
    };
    // tries is what begins another run.
    if (tries > 0) void follow(patience);
    return () => {
      clearTimeout(again);
      stop.abort();
    };
  }, [name, tries]);
  return run;
}

/** PreflightResults runs the checks and shows them as they come. */
export function PreflightResults({ name }: { name: string }) {
  const [tries, setTries] = useState(1);
  const { results, total, ended, problem } = usePreflight(name, tries);
  const needed = results.filter((result) => result.state !== "skipped");
  return (
    <section className="preflight" aria-label="Checks">
      <div className="row">
        <p className="spread" role="status">
          {summarise(results, total, ended)}
        </p>
        {ended && (
          <Button small onPress={() => setTries(tries + 1)}>
            Check again
          </Button>
        )}
      </div>
      {!ended && <progress value={results.length} max={total || 1} aria-label="Completed checks" />}
      {problem && <Note tone="bad">The checks could not be run: {problem}</Note>}
      <ul className="preflight-list">
        {needed.map((result) => (
          <Result key={result.code} result={result} />
        ))}
      </ul>
      {needed.length < results.length && (
        <details className="more">
          <summary>
            {results.length - needed.length === 1
              ? "One check does not apply"
              : `${results.length - needed.length} checks are not needed here`}
          </summary>
          <ul className="preflight-list">
            {results
              .filter((result) => result.state === "skipped")
              .map((result) => (
                <Result key={result.code} result={result} />
              ))}
          </ul>
        </details>
      )}
    </section>
  );
}

function Result({ result }: { result: PreflightResponse }) {
  const state = states[result.state] ?? { tone: "off" as const, word: result.state };
  return (
    <li data-check={result.code} data-state={result.state}>
      <div className="preflight-head">
        <Status tone={state.tone}>{state.word}</Status>
        <strong>{result.name}</strong>
        <span className="muted">{result.code}</span>
        <span className="muted preflight-looked">{result.state === "skipped" ? result.reason : result.looked}</span>
      </div>
      {result.findings.map((finding) => (
        <div key={`${finding.subject} ${finding.message}`} className="preflight-finding">
          <p>
            <strong>{finding.subject}</strong>
            {finding.subject && ": "}
            {finding.message}
          </p>
          {finding.fix &&
            (isCommand(finding.fix) ? (
              <CopyBlock label={`How to fix ${finding.subject || result.name}`} text={finding.fix.trimEnd()} />
            ) : (
              <p className="muted">To do: {finding.fix}</p>
            ))}
        </div>
      ))}
    </li>
  );
}
