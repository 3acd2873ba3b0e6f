// The state of a Git token.

import { timestampDate } from "@bufbuild/protobuf/wkt";
import type { TokenStatus } from "../../api/gen/slipway/runtime/v1/runtime_pb";
import { Facts, Note } from "../../ui/page";
import { Status } from "../../ui/status";
import { Time, useNow } from "../../ui/time";
import { tokenState } from "./providers";

/** TokenState is one word about a token. */
export function TokenState({ of }: { of: TokenStatus }) {
  const state = tokenState(of.state, of.expiresAt && timestampDate(of.expiresAt), useNow());
  return <Status tone={state.tone}>{state.word}</Status>;
}

/** TokenFacts shows the properties of a token and its missing permissions. */
export function TokenFacts({ of }: { of: TokenStatus }) {
  return (
    <div className="stack">
      <Facts
        items={[
          ["Your token", <TokenState key="state" of={of} />],
          ["Provider login", of.login],
          ["Kind", of.kind],
          ["Expires", of.expiresAt ? <Time key="expires" at={of.expiresAt} /> : "not known"],
          ["Checked", <Time key="checked" at={of.checkedAt} />],
        ]}
      />
      {of.missingScopes.length > 0 && (
        <Note tone="warn">
          <p>Missing permissions:</p>
          <ul className="scope-list">
            {of.missingScopes.map((scope) => (
              <li key={scope}>
                <code>{scope}</code>
              </li>
            ))}
          </ul>
          <p>Create a token with these permissions at the provider and replace it here.</p>
        </Note>
      )}
      {of.state !== "ok" && of.message !== "" && (
        <Note tone={of.state === "unknown" ? "warn" : "bad"}>{of.message}</Note>
      )}
    </div>
  );
}
