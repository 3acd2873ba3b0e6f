// The topology: a list within a list for those who hear it, boxes and lines for
// those who see it. On narrow screens everyone gets the list.

import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import type { Runtime } from "../../api/gen/slipway/platform/v1/fleet_pb";
import { useSession } from "../../app/session";
import { Dot } from "../../ui/status";
import { box, layout, type Place, shorten } from "./topology-layout";

export function TopologyView({ runtimes }: { runtimes: Runtime[] }) {
  const { accountName } = useSession();
  // What is wrong by the time of day changes slowly: a look at each change is enough.
  const drawn = useMemo(() => layout(runtimes, accountName, Date.now()), [runtimes, accountName]);
  const platform = drawn.places[0] as Place;
  const clusters = (runtime: string) =>
    drawn.places.filter((place) => place.kind === "cluster" && place.runtime === runtime);
  return (
    <section className="topology scroll-x" aria-label="Topology">
      <div className="topology-canvas" style={{ width: drawn.width, height: drawn.height }}>
        <svg
          width={drawn.width}
          height={drawn.height}
          viewBox={`0 0 ${drawn.width} ${drawn.height}`}
          aria-hidden="true"
          focusable="false"
        >
          {drawn.lines.map((line) => (
            <path key={line.id} d={line.path} className={`topology-line tone-${line.tone}`} />
          ))}
        </svg>
        <ul>
          <li>
            <Box place={platform} />
            <ul>
              {drawn.places
                .filter((place) => place.kind === "runtime")
                .map((runtime) => (
                  <li key={runtime.id}>
                    <Box place={runtime} />
                    <ul>
                      {clusters(runtime.runtime).map((cluster) => (
                        <li key={cluster.id}>
                          <Box place={cluster} />
                        </li>
                      ))}
                    </ul>
                  </li>
                ))}
            </ul>
          </li>
        </ul>
      </div>
    </section>
  );
}

function Box({ place }: { place: Place }) {
  const style = { left: place.x, top: place.y, width: box.width, height: box.height };
  const className = `topology-box tone-${place.tone} ${place.kind}`;
  const content = (
    <>
      <Dot tone={place.tone} label={place.state} />
      <span className="topology-text">
        <strong title={place.title}>{shorten(place.title, 24)}</strong>
        <span className="muted" title={place.detail}>
          {shorten(place.detail, 28)}
        </span>
      </span>
    </>
  );
  if (place.kind === "platform") {
    return (
      <div className={className} style={style}>
        {content}
      </div>
    );
  }
  return (
    <Link
      to="/runtimes/$runtime"
      params={{ runtime: place.runtime }}
      search={place.kind === "cluster" ? { tab: "clusters" } : {}}
      className={className}
      style={style}
    >
      {content}
    </Link>
  );
}
