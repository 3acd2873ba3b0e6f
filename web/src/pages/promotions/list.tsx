// Promotions, the newest first.

import { useState } from "react";
import type { PromotionState } from "../../api/gen/slipway/runtime/v1/promotion_pb";
import { Button } from "../../ui/button";
import { Status } from "../../ui/status";
import { type Column, Table } from "../../ui/table";
import { Time } from "../../ui/time";
import { phaseTone } from "./model";

// A product is promoted again and again: the newest ones matter.
const few = 5;

interface PromotionListProps {
  label: string;
  promotions: PromotionState[];
  onOpen: (promotion: string) => void;
  withProduct?: boolean;
}

export function PromotionList({ label, promotions, onOpen, withProduct = false }: PromotionListProps) {
  const [all, setAll] = useState(false);
  const rows = all ? promotions : promotions.slice(0, few);
  return (
    <div>
      <Table label={label} columns={columns(onOpen, withProduct)} rows={rows} rowKey={(row) => row.name} />
      {rows.length < promotions.length && (
        <Button small variant="ghost" onPress={() => setAll(true)}>
          {`Show ${promotions.length - rows.length} older`}
        </Button>
      )}
    </div>
  );
}

function columns(onOpen: (promotion: string) => void, withProduct: boolean): Column<PromotionState>[] {
  return [
    {
      id: "name",
      header: "Promotion",
      cell: (row) => (
        <button type="button" className="link-button" onClick={() => onOpen(row.name)}>
          {row.name}
        </button>
      ),
    },
    ...(withProduct
      ? [
          {
            id: "product",
            header: "Product",
            cell: (row: PromotionState) => row.product,
          } satisfies Column<PromotionState>,
        ]
      : []),
    { id: "version", header: "Version", cell: (row) => row.version || "–" },
    { id: "phase", header: "Status", cell: (row) => <Status tone={phaseTone(row.phase)}>{row.phase}</Status> },
    { id: "message", header: "Message", wideOnly: true, cell: (row) => row.message },
    { id: "by", header: "By", wideOnly: true, cell: (row) => row.by || "–" },
    { id: "began", header: "Started", cell: (row) => <Time at={row.createdAt} /> },
  ];
}
