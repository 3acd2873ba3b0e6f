import { Navigate, useParams, useSearch } from "@tanstack/react-router";
import { useApplications } from "../../api/fleet";
import { Failure, Loading, Page } from "../../ui/page";
import { linked, openedResource } from "./argolink";

/** ArgoLinkPage opens the application that an address of Argo CD's console names. */
export function ArgoLinkPage() {
  const { namespace, name = "" } = useParams({ strict: false });
  const search = useSearch({ strict: false });
  const live = useApplications();
  // Whether an application is the only one of its name is known after all of them.
  if (!live.synced) {
    return (
      <Page title={name} crumbs={[{ label: "Applications", to: "/applications" }]}>
        {live.error ? <Failure error={live.error} /> : <Loading lines={14} />}
      </Page>
    );
  }
  const [only, ...others] = linked(live.items.values(), { namespace, name });
  // The address is replaced, so that the way back leads out of the console.
  if (!only || others.length > 0) return <Navigate to="/applications" search={{ query: name }} replace />;
  return (
    <Navigate
      to="/applications/$runtime/$namespace/$name"
      params={{ runtime: only.runtime, namespace: only.namespace, name }}
      search={{ resource: openedResource(search) }}
      replace
    />
  );
}
