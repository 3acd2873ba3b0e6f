import { type ReactNode, useEffect, useState } from "react";
import { explain } from "../../api/errors";
import { Checkbox, SearchField, Select } from "../../ui/field";
import { LogView } from "../../ui/log";
import { Failure, Note } from "../../ui/page";
import { Status } from "../../ui/status";
import type { Place } from "./follow";
import { type LogQuestion, type LogState, useLogs } from "./logstream";
import type { ResourceName } from "./resourcename";
import { Offline } from "./resources";

export interface LogsProps {
  place: Place;
  online: boolean;
  object: ResourceName | null;
  /** Containers that are listed before they have logged. */
  containers?: string[];
}

/** Logs is what containers write, as they write it. */
export function Logs({ place, online, object, containers = [] }: LogsProps) {
  const [container, setContainer] = useState("");
  const [follow, setFollow] = useState(true);
  const [previous, setPrevious] = useState(false);
  const [times, setTimes] = useState(true);
  const [text, setText] = useState("");
  const [filter, setFilter] = useState("");
  useEffect(() => {
    const timer = setTimeout(() => setFilter(text), 400);
    return () => clearTimeout(timer);
  }, [text]);
  if (!online) return <Offline runtime={place.runtime} />;
  return (
    <div className="stack">
      <LogBody
        place={place}
        question={{ object, container, follow: follow && !previous, previous, filter }}
        times={times}
        bar={(log) => (
          <search className="filters" aria-label="Log filters">
            <SearchField label="Filter lines" placeholder="Filter lines" value={text} onChange={setText} />
            <span className="filter-select">
              <Select
                label="Container"
                hideLabel
                value={container}
                onChange={setContainer}
                options={containerOptions(containers, log.containers, container)}
              />
            </span>
            <Checkbox isSelected={follow && !previous} isDisabled={previous} onChange={setFollow}>
              Follow
            </Checkbox>
            <Checkbox isSelected={previous} onChange={setPrevious}>
              Previous container
            </Checkbox>
            <Checkbox isSelected={times} onChange={setTimes}>
              Times
            </Checkbox>
            <LogStatus log={log} />
          </search>
        )}
      />
    </div>
  );
}

function containerOptions(known: string[], seen: string[], chosen: string) {
  const all = new Set([...known, ...seen, ...(chosen ? [chosen] : [])]);
  return [{ value: "", label: "All containers" }, ...[...all].sort().map((name) => ({ value: name, label: name }))];
}

interface LogBodyProps {
  place: Place;
  question: LogQuestion;
  times: boolean;
  bar: (log: LogState) => ReactNode;
}

function LogBody({ place, question, times, bar }: LogBodyProps) {
  const log = useLogs(place, question);
  const sources = new Set(log.lines.slice(-200).map((line) => line.source));
  const label = question.object ? `Log of ${question.object.kind} ${question.object.name}` : "Log of all Pods";
  return (
    <>
      {bar(log)}
      {log.state === "failed" && log.lines.length === 0 ? (
        <Failure error={log.error} />
      ) : (
        <>
          {log.error && <Note tone="warn">{explain(log.error)}</Note>}
          <LogView
            label={label}
            lines={log.lines}
            total={log.total}
            showSource={sources.size > 1}
            showTime={times}
            empty={log.state === "reading" ? "Reading …" : "No lines."}
          />
        </>
      )}
    </>
  );
}

function LogStatus({ log }: { log: LogState }) {
  switch (log.state) {
    case "following":
      return <Status tone="good">Live</Status>;
    case "reading":
      return <Status tone="progress">Reading</Status>;
    case "ended":
      return <Status tone="off">Ended</Status>;
    case "failed":
      return <Status tone="bad">Not read</Status>;
  }
}
