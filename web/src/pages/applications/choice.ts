// What is chosen on the list of applications: it is in the address, so that it can
// be shared.

import { getRouteApi } from "@tanstack/react-router";
import { useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import { type Choice, type Facet, readChoice, readList, type Sort, sorts, writeList } from "./filter";

const route = getRouteApi("/inside/applications");
// The address follows the typing at this distance.
const settle = 200;

export interface Choosing {
  choice: Choice;
  text: string;
  setText: (text: string) => void;
  setFacet: (facet: Facet, values: string[]) => void;
  toggle: (facet: Facet, value: string) => void;
  clear: () => void;
  cards: boolean;
  setCards: (cards: boolean) => void;
}

/** useChoice reads the address and writes it. */
export function useChoice(): Choosing {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const written = useRef(search.query ?? "");
  const [text, setText] = useState(search.query ?? "");

  useEffect(() => {
    // The address changed without the field: back and forward do that.
    const query = search.query ?? "";
    if (query !== written.current) {
      written.current = query;
      setText(query);
    }
  }, [search.query]);

  useEffect(() => {
    if (text === written.current) return;
    const timer = setTimeout(() => {
      written.current = text;
      void navigate({ search: (before) => ({ ...before, query: text || undefined }), replace: true });
    }, settle);
    return () => clearTimeout(timer);
  }, [text, navigate]);

  const setFacet = useCallback(
    (facet: Facet, values: string[]) => {
      void navigate({ search: (before) => ({ ...before, [facet]: writeList(values) }), replace: true });
    },
    [navigate],
  );
  const toggle = useCallback(
    (facet: Facet, value: string) => {
      void navigate({
        search: (before) => {
          const values = readList(before[facet]);
          const next = values.includes(value) ? values.filter((each) => each !== value) : [...values, value];
          return { ...before, [facet]: writeList(next) };
        },
        replace: true,
      });
    },
    [navigate],
  );
  const clear = useCallback(() => {
    written.current = "";
    setText("");
    void navigate({ search: (before) => ({ view: before.view }), replace: true });
  }, [navigate]);
  const setCards = useCallback(
    (cards: boolean) => {
      void navigate({ search: (before) => ({ ...before, view: cards ? "cards" : undefined }), replace: true });
    },
    [navigate],
  );

  const query = useDeferredValue(text);
  const { health, sync, runtime, cluster, namespace, label } = search;
  const choice = useMemo(
    () => readChoice({ query, health, sync, runtime, cluster, namespace, label }),
    [query, health, sync, runtime, cluster, namespace, label],
  );
  return { choice, text, setText, setFacet, toggle, clear, cards: search.view === "cards", setCards };
}

const sortKey = "slipway.applications.sort";

/** useSort stores the user's sort order. */
export function useSort(): [Sort, (sort: string) => void] {
  const [sort, setSort] = useState<Sort>(() => {
    const kept = localStorage.getItem(sortKey);
    return sorts.find((each) => each === kept) ?? "name";
  });
  const choose = useCallback((value: string) => {
    const next = sorts.find((each) => each === value) ?? "name";
    localStorage.setItem(sortKey, next);
    setSort(next);
  }, []);
  return [sort, choose];
}
