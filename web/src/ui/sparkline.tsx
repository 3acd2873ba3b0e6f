import type { Tone } from "./status";

export interface SparklineProps {
  values: number[];
  /** The label for screen readers: the metric and its last value. */
  label: string;
  tone?: Tone;
  width?: number;
  height?: number;
  /** The top of the scale; the largest value without it. */
  max?: number;
}

/** Sparkline is the course of a figure, without axes. */
export function Sparkline({ values, label, tone = "progress", width = 120, height = 28, max }: SparklineProps) {
  const top = Math.max(max ?? 0, ...values, Number.MIN_VALUE);
  const step = values.length > 1 ? width / (values.length - 1) : width;
  const points = values.map(
    (value, i) => `${(i * step).toFixed(1)},${(height - 1 - (value / top) * (height - 2)).toFixed(1)}`,
  );
  return (
    <svg
      className={`tone-${tone}`}
      width={width}
      height={height}
      viewBox={`0 0 ${width} ${height}`}
      role="img"
      aria-label={label}
    >
      {values.length > 1 && (
        <>
          <polygon points={`0,${height} ${points.join(" ")} ${width},${height}`} fill="currentColor" opacity="0.15" />
          <polyline points={points.join(" ")} fill="none" stroke="currentColor" strokeWidth="1.5" />
        </>
      )}
    </svg>
  );
}
