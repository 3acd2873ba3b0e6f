import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useEffect, useRef, useState } from "react";
import { applicationKey } from "../../api/fleet";
import type { Application } from "../../api/gen/slipway/platform/v1/fleet_pb";
import { Health, Sync } from "../../ui/status";
import { Time } from "../../ui/time";
import { clusterOf, placeOf } from "./filter";
import { ApplicationLink, Revision, Running, Stale } from "./parts";

const narrowest = 290;
const height = 190;

const Card = memo(function Card({ application }: { application: Application }) {
  return (
    <article className="app-card" data-health={application.health} aria-label={application.name}>
      <div className="app-card-head">
        <ApplicationLink application={application} />
        <Stale application={application} />
      </div>
      <div className="row">
        <Health value={application.health} />
        <Sync value={application.sync} />
        <Running application={application} />
      </div>
      <dl className="app-card-facts">
        <dt>Runtime</dt>
        <dd>
          {application.runtime} / {clusterOf(application.cluster)}
        </dd>
        <dt>Namespace</dt>
        <dd>{placeOf(application)}</dd>
        <dt>Revision</dt>
        <dd>
          <Revision application={application} />
        </dd>
        <dt>Last sync</dt>
        <dd>
          <Time at={application.operationFinishedAt} />
        </dd>
      </dl>
    </article>
  );
});

/** ApplicationCards is the applications as cards, of which those are drawn that are seen. */
export function ApplicationCards({ rows }: { rows: Application[] }) {
  const scroller = useRef<HTMLElement>(null);
  const [lanes, setLanes] = useState(3);
  useEffect(() => {
    const element = scroller.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setLanes(Math.max(1, Math.floor(element.clientWidth / narrowest))));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const virtual = useVirtualizer({
    count: Math.ceil(rows.length / lanes),
    getScrollElement: () => scroller.current,
    estimateSize: () => height,
    overscan: 3,
  });
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard.
    <section className="app-cards" aria-label={`Applications, ${rows.length}`} ref={scroller} tabIndex={0}>
      <div className="app-cards-all" style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map((item) => (
          <div
            key={item.key}
            className="app-cards-row"
            style={{
              height: item.size,
              transform: `translateY(${item.start}px)`,
              gridTemplateColumns: `repeat(${lanes}, minmax(0, 1fr))`,
            }}
          >
            {rows.slice(item.index * lanes, (item.index + 1) * lanes).map((row) => (
              <Card key={applicationKey(row)} application={row} />
            ))}
          </div>
        ))}
      </div>
    </section>
  );
}
