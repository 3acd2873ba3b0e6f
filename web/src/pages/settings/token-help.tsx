// Where a Git token is created and what it needs, as the platform knows it.

import { useQuery } from "@tanstack/react-query";
import type { TokenHelp } from "../../api/gen/slipway/platform/v1/fleet_pb";
import { platform } from "../../api/transport";
import { ExternalLink } from "../../ui/button";

/** useTokenHelp is the help for a provider and its API; without one, for that of the account. */
export function useTokenHelp(provider = "", apiUrl = "") {
  return useQuery({
    queryKey: ["token-help", provider, apiUrl],
    queryFn: () => platform.git.getTokenHelp({ provider, apiUrl }),
  });
}

/** TokenHelpText describes a token in a sentence. */
export function TokenHelpText({ of }: { of: TokenHelp | undefined }) {
  if (!of) return <>A token of your Git provider.</>;
  return (
    <>
      {of.page !== "" && (
        <>
          Created at <ExternalLink href={of.page}>{of.page}</ExternalLink>.{" "}
        </>
      )}
      It needs {of.needs.join(", ")}
      {of.fineGrained.length > 0 && `; a fine-grained token: ${of.fineGrained.join("; ")}`}.
      {of.username !== "" && ` User name: ${of.username}.`}
    </>
  );
}
