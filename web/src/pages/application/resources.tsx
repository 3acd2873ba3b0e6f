import { useMemo, useState } from "react";
import { explain } from "../../api/errors";
import type { Node } from "../../api/gen/slipway/runtime/v1/application_pb";
import { Checkbox, SearchField, Select } from "../../ui/field";
import { Empty, Failure, Loading, Note, Panel } from "../../ui/page";
import type { Place } from "./follow";
import type { LiveTree } from "./followtree";
import { ResourceGraph } from "./graph";
import type { ResourceName } from "./resourcename";
import { buildTree, noFilter, type TreeFilter, treeRows, treeValues } from "./tree";
import { ResourceTree } from "./treeview";

export interface ResourcesProps {
  runtime: string;
  live: LiveTree;
  online: boolean;
  onOpen: (resource: ResourceName) => void;
  /** Set if the user may run actions of resources. */
  actionsOf?: Place | undefined;
}

/** Resources is what the application has in the cluster, and what that made. */
export function Resources({ runtime, live, online, onOpen, actionsOf }: ResourcesProps) {
  const { nodes, error } = live;
  const [filter, setFilter] = useState<TreeFilter>(noFilter);
  const [collapsed, setCollapsed] = useState<ReadonlySet<string>>(new Set());
  const [graph, setGraph] = useState(false);
  const tree = useMemo(() => buildTree(nodes ?? []), [nodes]);
  const rows = useMemo(() => treeRows(tree, collapsed, filter), [tree, collapsed, filter]);

  if (!nodes) {
    if (!online) return <Offline runtime={runtime} />;
    if (error) return <Failure error={error} retry={live.retry} />;
    return <Loading lines={10} />;
  }
  if (nodes.length === 0) {
    return (
      <Empty title="No resources">
        The application has nothing in the cluster. Sync it to deploy from Git, or check its conditions.
      </Empty>
    );
  }
  const toggle = (id: string, open: boolean) => {
    const next = new Set(collapsed);
    if (open) next.delete(id);
    else next.add(id);
    setCollapsed(next);
  };
  return (
    <div className="stack">
      {error && <Note tone="warn">{explain(error)} The data shown may be stale.</Note>}
      <TreeFilters nodes={nodes} filter={filter} onChange={setFilter} graph={graph} onGraph={setGraph} />
      {rows.length === 0 ? (
        <Empty title="No matching resources">Change or clear the filters.</Empty>
      ) : (
        <Panel flush>
          {graph ? (
            <ResourceGraph rows={rows} onOpen={onOpen} />
          ) : (
            <ResourceTree rows={rows} onToggle={toggle} onOpen={onOpen} actionsOf={online ? actionsOf : undefined} />
          )}
        </Panel>
      )}
    </div>
  );
}

interface TreeFiltersProps {
  nodes: Node[];
  filter: TreeFilter;
  onChange: (filter: TreeFilter) => void;
  graph: boolean;
  onGraph: (graph: boolean) => void;
}

function TreeFilters({ nodes, filter, onChange, graph, onGraph }: TreeFiltersProps) {
  const values = useMemo(() => treeValues(nodes), [nodes]);
  const options = (all: string, list: [string, number][], chosen: string) => {
    const missing: [string, number][] = chosen !== "" && !list.some(([value]) => value === chosen) ? [[chosen, 0]] : [];
    return [
      { value: "", label: all },
      ...[...list, ...missing].map(([value, count]) => ({ value, label: `${value} (${count})` })),
    ];
  };
  return (
    <search className="filters" aria-label="Resource filters">
      <SearchField
        label="Find resources"
        placeholder="Kind or name"
        value={filter.text}
        onChange={(text) => onChange({ ...filter, text })}
      />
      <span className="filter-select">
        <Select
          label="Kind"
          hideLabel
          value={filter.kind}
          onChange={(kind) => onChange({ ...filter, kind })}
          options={options("All kinds", values.kinds, filter.kind)}
        />
      </span>
      <span className="filter-select">
        <Select
          label="Health"
          hideLabel
          value={filter.health}
          onChange={(health) => onChange({ ...filter, health })}
          options={options("Any health", values.healths, filter.health)}
        />
      </span>
      <Checkbox isSelected={filter.outOfSync} onChange={(outOfSync) => onChange({ ...filter, outOfSync })}>
        Out of sync ({values.outOfSync})
      </Checkbox>
      <span className="spread" />
      <fieldset className="switch">
        <legend className="visually-hidden">View</legend>
        <button type="button" aria-pressed={!graph} onClick={() => onGraph(false)}>
          Tree
        </button>
        <button type="button" aria-pressed={graph} onClick={() => onGraph(true)}>
          Graph
        </button>
      </fieldset>
    </search>
  );
}

/** Offline replaces content that only the runtime has. */
export function Offline({ runtime }: { runtime: string }) {
  return (
    <Empty title="The runtime is offline">
      This data comes from the runtime {runtime}. It is shown when the runtime reconnects.
    </Empty>
  );
}
