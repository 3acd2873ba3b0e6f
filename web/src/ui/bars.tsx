// Bars of parts on top of each other, one for each step of time.

import type { Tone } from "./status";
import "./bars.css";

export interface Bar {
  /** The moment of the bar. */
  label: string;
  /** What the bar is made of, from below. */
  parts: { tone: Tone; label: string; value: number }[];
}

export interface BarsProps {
  /** The label for screen readers: the metric and its sum. */
  label: string;
  bars: Bar[];
}

const height = 120;
const wide = 10;

/** Bars is a chart with the largest sum, and the first and the last moment, at its axes. */
export function Bars({ label, bars }: BarsProps) {
  const top = Math.max(1, ...bars.map((bar) => sumOf(bar)));
  // Many bars have no room for gaps.
  const gap = bars.length > 60 ? 1 : 2;
  return (
    <figure className="bars">
      <span className="bars-top">{top.toLocaleString("en")}</span>
      <svg
        viewBox={`0 0 ${Math.max(1, bars.length) * wide} ${height}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={label}
      >
        {bars.map((bar, at) => (
          <g key={bar.label}>
            <title>
              {[bar.label, ...bar.parts.map((part) => `${part.label}: ${part.value.toLocaleString("en")}`)].join("\n")}
            </title>
            {/* A bar without a value has a title too. */}
            <rect x={at * wide} y={0} width={wide} height={height} fill="transparent" />
            {partsOf(bar, top).map((part) => (
              <rect
                key={part.label}
                className={`tone-${part.tone}`}
                x={at * wide + gap / 2}
                y={part.y}
                width={wide - gap}
                height={part.height}
                fill="currentColor"
              />
            ))}
          </g>
        ))}
      </svg>
      <figcaption>
        <span>{bars[0]?.label}</span>
        <span>{bars.at(-1)?.label}</span>
      </figcaption>
    </figure>
  );
}

const sumOf = (bar: Bar): number => bar.parts.reduce((sum, part) => sum + part.value, 0);

// partsOf gives the parts their places. One that is not zero is seen, however small it is.
function partsOf(bar: Bar, top: number) {
  let y = height;
  return bar.parts
    .filter((part) => part.value > 0)
    .map((part) => {
      const tall = Math.max(1.5, (part.value / top) * height);
      y = Math.max(0, y - tall);
      return { ...part, y, height: tall };
    });
}
