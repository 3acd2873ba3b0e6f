// A list of the settings: a plain table, or one that draws only what is seen when it
// is long.

import { useNarrow } from "../../ui/narrow";
import { Table, type TableProps, VirtualTable } from "../../ui/table";

const long = 100;

export function List<T>(props: TableProps<T>) {
  const narrow = useNarrow();
  return props.rows.length > long ? <VirtualTable {...props} narrow={narrow} /> : <Table {...props} />;
}
