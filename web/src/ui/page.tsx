import { Link, type LinkProps } from "@tanstack/react-router";
import { type ReactNode, useEffect } from "react";
import { explain, isDenied } from "../api/errors";
import { Button } from "./button";
import type { Tone } from "./status";

export interface PageProps {
  title: string;
  subtitle?: ReactNode;
  actions?: ReactNode;
  crumbs?: { label: string; to: LinkProps["to"] }[];
  children: ReactNode;
}

export function Page({ title, subtitle, actions, crumbs, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · Slipway`;
  }, [title]);
  return (
    <main className="page" id="main" tabIndex={-1}>
      <header>
        <div className="spread">
          {crumbs && (
            <nav className="crumbs" aria-label="Breadcrumbs">
              {crumbs.map((crumb) => (
                <span key={crumb.label}>
                  <Link to={crumb.to}>{crumb.label}</Link> /
                </span>
              ))}
            </nav>
          )}
          <h1>{title}</h1>
          {subtitle && <div className="muted">{subtitle}</div>}
        </div>
        {actions && <div className="row">{actions}</div>}
      </header>
      {children}
    </main>
  );
}

export interface PanelProps {
  title?: string;
  actions?: ReactNode;
  /** The content reaches the border, as tables do. */
  flush?: boolean;
  children: ReactNode;
}

export function Panel({ title, actions, flush, children }: PanelProps) {
  return (
    <section className="panel" aria-label={title}>
      {(title || actions) && (
        <header>
          {title && <h2 className="spread">{title}</h2>}
          {actions}
        </header>
      )}
      <div className={flush ? "body flush" : "body"}>{children}</div>
    </section>
  );
}

/** Note is something to know or to do, beside the thing that it is about. */
export function Note({ tone = "progress", children }: { tone?: Tone; children: ReactNode }) {
  return (
    <div className={`note tone-${tone}`} role={tone === "bad" ? "alert" : "note"}>
      <div>{children}</div>
    </div>
  );
}

export function Facts({ items }: { items: [label: string, value: ReactNode][] }) {
  return (
    <dl className="facts">
      {items.map(([label, value]) => (
        <div key={label} style={{ display: "contents" }}>
          <dt>{label}</dt>
          <dd>{value === "" || value === undefined || value === null ? "–" : value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Empty({ title, children, action }: { title: string; children?: ReactNode; action?: ReactNode }) {
  return (
    <div className="empty">
      <h2>{title}</h2>
      {children && <p>{children}</p>}
      {action}
    </div>
  );
}

/** Failure shows an error, or that the user may not see this. */
export function Failure({ error, retry }: { error: unknown; retry?: () => void }) {
  if (isDenied(error)) {
    return <Empty title="Permission denied">{explain(error)} Contact an admin of the account.</Empty>;
  }
  return (
    <div className="empty" role="alert">
      <h2>Something went wrong</h2>
      <p>{explain(error)}</p>
      {retry && <Button onPress={retry}>Try again</Button>}
    </div>
  );
}

/** Loading keeps the place of what comes. */
export function Loading({ lines = 5 }: { lines?: number }) {
  return (
    <div className="skeleton" role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, line) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: lines have nothing else.
        <span key={line} style={{ width: `${90 - ((line * 17) % 50)}%` }} />
      ))}
    </div>
  );
}
