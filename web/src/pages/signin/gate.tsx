// The frame of the pages before the console: one card in the middle.

import { type ReactNode, useEffect } from "react";
import "./gate.css";

export function Gate({ title, children, foot }: { title: string; children: ReactNode; foot?: ReactNode }) {
  useEffect(() => {
    document.title = `${title} · Slipway`;
  }, [title]);
  return (
    <main className="gate" id="main">
      <div className="gate-box">
        <div className="gate-brand">
          <img src="/console/icon.svg" alt="" width="36" height="36" />
          <h1>{title}</h1>
        </div>
        <div className="gate-card">{children}</div>
        {foot && <p className="gate-foot">{foot}</p>}
      </div>
    </main>
  );
}
