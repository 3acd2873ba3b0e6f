import type { ReactNode } from "react";
import { Tabs as AriaTabs, Tab, TabList, TabPanel } from "react-aria-components/Tabs";

export interface TabsProps<ID extends string> {
  label: string;
  tabs: { id: ID; label: string; content: ReactNode }[];
  selected: ID;
  onSelect: (id: ID) => void;
}

export function Tabs<ID extends string>({ label, tabs, selected, onSelect }: TabsProps<ID>) {
  return (
    <AriaTabs selectedKey={selected} onSelectionChange={(key) => onSelect(key as ID)}>
      <TabList className="tablist" aria-label={label}>
        {tabs.map((tab) => (
          <Tab key={tab.id} id={tab.id} className="tab">
            {tab.label}
          </Tab>
        ))}
      </TabList>
      {tabs.map((tab) => (
        <TabPanel key={tab.id} id={tab.id} className="tabpanel">
          {tab.content}
        </TabPanel>
      ))}
    </AriaTabs>
  );
}
