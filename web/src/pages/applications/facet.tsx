import { useMemo, useState } from "react";
import { Button } from "react-aria-components/Button";
import { Dialog, DialogTrigger } from "react-aria-components/Dialog";
import { ListBox, ListBoxItem } from "react-aria-components/ListBox";
import { Popover } from "react-aria-components/Popover";
import { SearchField } from "../../ui/field";
import { CheckIcon, ChevronIcon } from "../../ui/icons";
import { type Counts, type Facet, rankOf } from "./filter";

export interface FacetMenuProps {
  facet: Facet;
  label: string;
  chosen: string[];
  counts: Counts;
  onChange: (values: string[]) => void;
}

// Above this number of values the list is searched instead.
const mostValues = 200;

/** FacetMenu chooses values of one filter, with how many applications each has. */
export function FacetMenu({ facet, label, chosen, counts, onChange }: FacetMenuProps) {
  return (
    <DialogTrigger>
      <Button className={chosen.length > 0 ? "button small facet chosen" : "button small facet"}>
        {label}
        {chosen.length > 0 && <span className="facet-count">{chosen.length}</span>}
        <ChevronIcon />
      </Button>
      <Popover className="popover facet-popover" placement="bottom start">
        <Dialog className="facet-dialog" aria-label={`Filter by ${label.toLowerCase()}`}>
          <FacetValues facet={facet} label={label} chosen={chosen} counts={counts} onChange={onChange} />
        </Dialog>
      </Popover>
    </DialogTrigger>
  );
}

interface Value {
  id: string;
  label: string;
  count: number;
}

/** facetValues is what can be chosen: what is chosen already, and then the most frequent. */
export function facetValues(facet: Facet, chosen: string[], counts: Map<string, number>, text: string): Value[] {
  const wanted = text.toLowerCase();
  const all = new Map(counts);
  for (const value of chosen) if (!all.has(value)) all.set(value, 0);
  return [...all]
    .filter(([value]) => value.toLowerCase().includes(wanted))
    .sort(
      ([a, many], [b, few]) =>
        Number(chosen.includes(b)) - Number(chosen.includes(a)) ||
        rankOf(facet, a) - rankOf(facet, b) ||
        few - many ||
        (a < b ? -1 : 1),
    )
    .slice(0, mostValues)
    .map(([value, count]) => ({ id: value, label: value === "OutOfSync" ? "Out of sync" : value || "(none)", count }));
}

function FacetValues({ facet, label, chosen, counts, onChange }: FacetMenuProps) {
  const [text, setText] = useState("");
  const values = useMemo(() => facetValues(facet, chosen, counts[facet], text), [facet, chosen, counts, text]);
  return (
    <>
      {(counts[facet].size > 8 || text !== "") && (
        <SearchField label={`Find ${label.toLowerCase()}`} value={text} onChange={setText} />
      )}
      <ListBox
        aria-label={label}
        items={values}
        selectionMode="multiple"
        escapeKeyBehavior="none"
        selectedKeys={chosen}
        onSelectionChange={(keys) => keys !== "all" && onChange([...keys].map(String))}
        renderEmptyState={() => <p className="muted facet-none">No values.</p>}
      >
        {(value) => (
          <ListBoxItem id={value.id} className="option facet-value" textValue={value.label}>
            {({ isSelected }) => (
              <>
                <span className="facet-check">{isSelected && <CheckIcon />}</span>
                <span className="spread">{value.label}</span>
                <span className="muted">{value.count}</span>
              </>
            )}
          </ListBoxItem>
        )}
      </ListBox>
    </>
  );
}
