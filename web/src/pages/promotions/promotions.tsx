// Which version is in which environment, and the promotions that move it on.

import { useQuery } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { type ReactNode, useCallback, useMemo, useState } from "react";
import { explain } from "../../api/errors";
import type { ListPromotionsResponse, PromotionProduct } from "../../api/gen/slipway/runtime/v1/promotion_pb";
import { OneRuntime } from "../../app/oneruntime";
import { counted } from "../../ui/count";
import { Empty, Failure, Loading, Note, Page, Panel } from "../../ui/page";
import { type Act, ActDialog } from "./act";
import { Flow } from "./flow";
import { PromotionList } from "./list";
import { PromotionDialog } from "./promotion";
import { promotionsQuery } from "./queries";
import "./promotions.css";

const route = getRouteApi("/inside/promotions");

export function PromotionsPage() {
  const search = route.useSearch();
  const navigate = useNavigate();
  return (
    <OneRuntime
      title="Promotions"
      name={search.runtime}
      onChoose={(runtime) => void navigate({ to: "/promotions", search: { runtime }, replace: true })}
      purpose="A runtime moves versions through environments, such as from staging to production."
    >
      {({ name, online }, picker) => (
        <RuntimePromotions key={name} name={name} online={online} picker={picker} opened={search.promotion} />
      )}
    </OneRuntime>
  );
}

interface RuntimePromotionsProps {
  name: string;
  online: boolean;
  picker: ReactNode;
  /** The Promotion that the address opens. */
  opened: string | undefined;
}

function RuntimePromotions({ name, online, picker, opened }: RuntimePromotionsProps) {
  const navigate = useNavigate();
  const query = useQuery({ ...promotionsQuery(name), enabled: online });
  const [act, setAct] = useState<Act | null>(null);
  const open = useCallback(
    (promotion: string | undefined) =>
      void navigate({ to: "/promotions", search: (before) => ({ ...before, promotion }), replace: true }),
    [navigate],
  );
  const shown = query.data?.promotions.find((one) => one.name === opened);
  return (
    <Page title="Promotions" subtitle="Which version is in which environment, and what moves it on." actions={picker}>
      {!online && (
        <Note tone="warn">
          The runtime {name} is offline.{" "}
          {query.data ? "The data shown is stale." : "Its promotions are shown when it reconnects."}
        </Note>
      )}
      {query.data ? (
        <>
          {query.error && <Note tone="warn">{explain(query.error)} The data shown may be stale.</Note>}
          <Products runtime={name} data={query.data} online={online} onAct={setAct} onOpen={open} />
        </>
      ) : query.error ? (
        <Failure error={query.error} retry={() => void query.refetch()} />
      ) : (
        online && <Loading lines={10} />
      )}
      {shown && act === null && (
        <PromotionDialog promotion={shown} online={online} onAct={setAct} onClose={() => open(undefined)} />
      )}
      {act && <ActDialog runtime={name} act={act} onClose={() => setAct(null)} />}
    </Page>
  );
}

interface ProductsProps {
  runtime: string;
  data: ListPromotionsResponse;
  online: boolean;
  onAct: (act: Act) => void;
  onOpen: (promotion: string) => void;
}

function Products({ runtime, data, online, onAct, onOpen }: ProductsProps) {
  if (data.products.length === 0 && data.promotions.length === 0) {
    return (
      <Empty title="No products">
        A Product names what is promoted, and a PromotionFlow its environments in their order. Apply them to the
        namespace of the runtime, and what is in the environments is here.
      </Empty>
    );
  }
  return (
    <div className="stack">
      {data.products.map((product) => (
        <Product
          key={product.name}
          runtime={runtime}
          product={product}
          data={data}
          online={online}
          onAct={onAct}
          onOpen={onOpen}
        />
      ))}
      <Others data={data} onOpen={onOpen} />
      {data.leftOut > 0 && (
        <Note tone="off">
          {counted(data.leftOut, "older promotion is", "older promotions are")} not listed. slipway promote list has
          all.
        </Note>
      )}
    </div>
  );
}

interface ProductProps extends ProductsProps {
  product: PromotionProduct;
}

function Product({ runtime, product, data, online, onAct, onOpen }: ProductProps) {
  const own = useMemo(
    () => data.promotions.filter((one) => one.product === product.name),
    [data.promotions, product.name],
  );
  return (
    <Panel title={product.name}>
      <div className="stack">
        {product.problem !== "" && <Note tone="warn">{product.problem}</Note>}
        {product.flows.map((flow) => (
          <Flow
            key={flow.name}
            runtime={runtime}
            product={product.name}
            flow={flow}
            promotions={own}
            online={online}
            onAct={onAct}
            onOpen={onOpen}
          />
        ))}
        {own.length > 0 && <PromotionList label={`Promotions of ${product.name}`} promotions={own} onOpen={onOpen} />}
      </div>
    </Panel>
  );
}

// Others is the promotions of products that are gone.
function Others({ data, onOpen }: { data: ListPromotionsResponse; onOpen: (promotion: string) => void }) {
  const names = new Set(data.products.map((product) => product.name));
  const others = data.promotions.filter((one) => !names.has(one.product));
  if (others.length === 0) return null;
  return (
    <Panel title="Products that are gone">
      <PromotionList label="Promotions of products that are gone" promotions={others} onOpen={onOpen} withProduct />
    </Panel>
  );
}
