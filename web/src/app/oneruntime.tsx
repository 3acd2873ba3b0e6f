// Pages that show one runtime at a time.

import { Link } from "@tanstack/react-router";
import { type ReactNode, useMemo } from "react";
import { isDenied } from "../api/errors";
import { useRuntimes } from "../api/fleet";
import type { Runtime } from "../api/gen/slipway/platform/v1/fleet_pb";
import { buttonClass } from "../ui/button";
import { Select } from "../ui/field";
import { Empty, Failure, Loading, Page } from "../ui/page";

export interface OneRuntimeProps {
  /** The title of the page. */
  title: string;
  /** The runtime of the address. Without one it is the first, and those that are online come first. */
  name: string | undefined;
  onChoose: (name: string) => void;
  /** What the page shows when there is a runtime. */
  purpose: string;
  /** children is the page of a runtime, with what chooses another one. */
  children: (runtime: Runtime, picker: ReactNode) => ReactNode;
}

export function OneRuntime({ title, name, onChoose, purpose, children }: OneRuntimeProps) {
  const runtimes = useRuntimes();
  const names = useMemo(
    () =>
      [...runtimes.items.values()]
        .toSorted((a, b) => Number(b.online) - Number(a.online) || a.name.localeCompare(b.name))
        .map((each) => each.name),
    [runtimes.items],
  );
  const chosen = name ?? names[0];
  if (!runtimes.synced) {
    return (
      <Page title={title}>
        {runtimes.error && isDenied(runtimes.error) ? <Failure error={runtimes.error} /> : <Loading lines={8} />}
      </Page>
    );
  }
  if (chosen === undefined) {
    return (
      <Page title={title}>
        <Empty
          title="No runtimes"
          action={
            <Link to="/install" className={buttonClass("primary")}>
              Install a runtime
            </Link>
          }
        >
          {purpose}
        </Empty>
      </Page>
    );
  }
  const runtime = runtimes.items.get(chosen);
  const picker = (
    <Select
      label="Runtime"
      hideLabel
      value={chosen}
      onChange={onChoose}
      options={[...new Set([...names, chosen])].map((value) => ({ value, label: value }))}
    />
  );
  if (!runtime) {
    return (
      <Page title={title} actions={picker}>
        <Empty title="Runtime not found">There is no runtime {chosen} in this account.</Empty>
      </Page>
    );
  }
  return children(runtime, picker);
}
