import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef, useState } from "react";
import { Button } from "./button";
import "./log.css";
import type { LogLine } from "./logbuffer";

export interface LogViewProps {
  label: string;
  lines: LogLine[];
  /** How many lines came, those that are not kept included. */
  total: number;
  /** Say which container wrote a line. */
  showSource: boolean;
  showTime: boolean;
  empty: string;
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
// So near to the end counts as the end.
const slack = 24;

/** LogView shows a log and follows its end until the user scrolls up. */
export function LogView({ label, lines, total, showSource, showTime, empty }: LogViewProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const [atEnd, setAtEnd] = useState(true);
  const virtual = useVirtualizer({
    count: lines.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => 20,
    overscan: 20,
    getItemKey: (index) => lines[index]?.id ?? index,
  });
  const last = lines.at(-1)?.id;
  useEffect(() => {
    const element = scroller.current;
    if (element && atEnd && last !== undefined) element.scrollTop = element.scrollHeight;
  }, [last, atEnd]);
  const scrolled = () => {
    const element = scroller.current;
    if (element) setAtEnd(element.scrollHeight - element.scrollTop - element.clientHeight < slack);
  };
  return (
    <div className="logview">
      <div
        className="loglines"
        role="log"
        aria-label={label}
        aria-live="off"
        ref={scroller}
        onScroll={scrolled}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard.
        tabIndex={0}
      >
        {lines.length === 0 && <p className="muted logempty">{empty}</p>}
        <div className="logall" style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map((item) => {
            const line = lines[item.index];
            if (!line) return null;
            return (
              <div key={item.key} className="logline" style={{ transform: `translateY(${item.start}px)` }}>
                {showTime && line.at && (
                  <span className="muted" title={line.at.toISOString()}>{`${clock.format(line.at)} `}</span>
                )}
                {showSource && <span className="logsource">{`${line.source} `}</span>}
                {line.text}
              </div>
            );
          })}
        </div>
      </div>
      <div className="logfoot muted">
        <span className="spread">
          {total > lines.length
            ? `The last ${lines.length.toLocaleString("en")} of ${total.toLocaleString("en")} lines`
            : `${total.toLocaleString("en")} ${total === 1 ? "line" : "lines"}`}
        </span>
        <Button small variant="ghost" isDisabled={atEnd} onPress={() => setAtEnd(true)}>
          {atEnd ? "At the end" : "Go to the end"}
        </Button>
      </div>
    </div>
  );
}
