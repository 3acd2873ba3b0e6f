import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { useApplications } from "../../api/fleet";
import { Button, buttonClass } from "../../ui/button";
import { SearchField, Select } from "../../ui/field";
import { Empty, Failure, Loading, Page, Panel } from "../../ui/page";
import "./applications.css";
import { useNarrow } from "../../ui/narrow";
import { ApplicationCards } from "./cards";
import { type Choosing, useChoice, useSort } from "./choice";
import { FacetMenu } from "./facet";
import "./filters.css";
import { type Counts, type Facet, find, isChosen, type Sort, sorted } from "./filter";
import { ApplicationList } from "./list";
import { Totals } from "./totals";

const facetLabels: [Facet, string][] = [
  ["health", "Health"],
  ["sync", "Sync"],
  ["runtime", "Runtime"],
  ["cluster", "Cluster"],
  ["namespace", "Namespace"],
  ["label", "Label"],
];

const sortOptions: { value: Sort; label: string }[] = [
  { value: "name", label: "By name" },
  { value: "health", label: "By health" },
  { value: "sync", label: "By sync" },
  { value: "runtime", label: "By runtime" },
  { value: "changed", label: "By last sync" },
];

export function ApplicationsPage() {
  const live = useApplications();
  const choosing = useChoice();
  const [sort, setSort] = useSort();
  const narrow = useNarrow();
  const found = useMemo(() => find(live.items.values(), choosing.choice), [live.items, choosing.choice]);
  const rows = useMemo(() => sorted(found.rows, sort), [found.rows, sort]);
  const all = live.items.size;
  return (
    <Page
      title="Applications"
      subtitle={
        <span role="status">
          {!live.synced
            ? "Loading"
            : rows.length === all
              ? `${all.toLocaleString("en")} total`
              : `${rows.length.toLocaleString("en")} of ${all.toLocaleString("en")}`}
        </span>
      }
      actions={
        <>
          <span className="sort">
            <Select label="Sort" hideLabel value={sort} onChange={setSort} options={sortOptions} />
          </span>
          <ViewSwitch cards={choosing.cards} onChange={choosing.setCards} />
        </>
      }
    >
      {!live.synced && live.error ? (
        <Failure error={live.error} />
      ) : live.synced && all === 0 ? (
        <NoApplications />
      ) : (
        <>
          <div className="totals-strip">
            {(["health", "sync"] as const).map((facet) => (
              <Totals
                key={facet}
                facet={facet}
                label={facet}
                counts={found.counts[facet]}
                chosen={choosing.choice.chosen[facet]}
                onToggle={choosing.toggle}
              />
            ))}
          </div>
          <Filters choosing={choosing} counts={found.counts} />
          {!live.synced && rows.length === 0 ? (
            <Panel>
              <Loading lines={12} />
            </Panel>
          ) : rows.length === 0 ? (
            <Empty
              title="No matching applications"
              action={<Button onPress={choosing.clear}>Clear the filters</Button>}
            >
              Change or clear the filters.
            </Empty>
          ) : choosing.cards ? (
            <ApplicationCards rows={rows} />
          ) : (
            <Panel flush>
              <ApplicationList rows={rows} narrow={narrow} />
            </Panel>
          )}
        </>
      )}
    </Page>
  );
}

function ViewSwitch({ cards, onChange }: { cards: boolean; onChange: (cards: boolean) => void }) {
  return (
    <fieldset className="switch">
      <legend className="visually-hidden">View</legend>
      <button type="button" aria-pressed={!cards} onClick={() => onChange(false)}>
        List
      </button>
      <button type="button" aria-pressed={cards} onClick={() => onChange(true)}>
        Cards
      </button>
    </fieldset>
  );
}

function Filters({ choosing, counts }: { choosing: Choosing; counts: Counts }) {
  return (
    <search className="filters" aria-label="Filters">
      <SearchField
        label="Find applications"
        placeholder="Name, namespace, project, repository"
        value={choosing.text}
        onChange={choosing.setText}
      />
      {facetLabels.map(([facet, label]) => (
        <FacetMenu
          key={facet}
          facet={facet}
          label={label}
          chosen={choosing.choice.chosen[facet]}
          counts={counts}
          onChange={(values) => choosing.setFacet(facet, values)}
        />
      ))}
      {isChosen(choosing.choice) && (
        <Button small variant="ghost" onPress={choosing.clear}>
          Clear
        </Button>
      )}
    </search>
  );
}

function NoApplications() {
  return (
    <Empty
      title="No applications yet"
      action={
        <Link to="/runtimes" className={buttonClass("primary")}>
          Go to the runtimes
        </Link>
      }
    >
      An application defines which directory in Git is deployed to which cluster. Add a Git Source to a runtime, and its
      applications appear here.
    </Empty>
  );
}
