// Making and changing a Git Source.

import { create } from "@bufbuild/protobuf";
import { useState } from "react";
import { type GitSource, GitSourceSchema } from "../../api/gen/slipway/runtime/v1/runtime_pb";
import { runtime } from "../../api/runtime";
import { useSession } from "../../app/session";
import { Checkbox, TextField } from "../../ui/field";
import { FormDialog } from "../../ui/form-dialog";
import { toast } from "../../ui/toast";
import { sourceProblem } from "./git-source";

export interface GitSourceDialogProps {
  name: string;
  /** What is changed; a new one is made without it. */
  before?: GitSource | undefined;
  onClose: () => void;
  onDone: () => void;
}

export function GitSourceDialog({ name, before, onClose, onDone }: GitSourceDialogProps) {
  const { isAdmin } = useSession();
  const [draft, setDraft] = useState<GitSource>(
    () => before ?? create(GitSourceSchema, { include: "*", revision: "main" }),
  );
  const [makeRepository, setMakeRepository] = useState(false);
  const [webhook, setWebhook] = useState(true);
  const change = (part: Partial<Omit<GitSource, "$typeName" | "$unknown">>) => setDraft((old) => ({ ...old, ...part }));
  const submit = async () => {
    const clients = runtime(name).gitSources;
    const gitSource = create(GitSourceSchema, {
      ...draft,
      name: draft.name.trim(),
      repoUrl: draft.repoUrl.trim(),
      path: draft.path.trim(),
      project: draft.project.trim(),
      revision: draft.revision.trim(),
    });
    if (before) {
      await clients.editGitSource({ gitSource });
      toast(`The Git Source ${gitSource.name} is changed.`);
    } else {
      const answer = await clients.createGitSource({
        gitSource,
        createRepository: makeRepository,
        registerWebhook: webhook,
      });
      toast(`The Git Source ${gitSource.name} is made.`);
      if (answer.webhookProblem) {
        toast(`No webhook was registered: ${answer.webhookProblem}. Pushes are detected by polling.`, "warn");
      }
    }
    onDone();
    return "close";
  };
  return (
    <FormDialog
      title={before ? `Change the Git Source ${before.name}` : "Add a Git Source"}
      submitLabel={before ? "Save" : "Add it"}
      onClose={onClose}
      problem={sourceProblem(draft)}
      onSubmit={submit}
    >
      <p className="muted">
        A Git Source is a repository with Applications, which the runtime creates in the cluster. It is written to the
        shared repository.
      </p>
      {!before && (
        <TextField
          label="Name"
          value={draft.name}
          onChange={(value) => change({ name: value })}
          autoComplete="off"
          description="Lower-case letters, digits and dashes. It cannot be changed later."
          autoFocus
        />
      )}
      <TextField
        label="Repository"
        value={draft.repoUrl}
        onChange={(repoUrl) => change({ repoUrl })}
        autoComplete="off"
        placeholder="https://github.com/acme/apps.git"
        description="HTTPS, or SSH if the runtime has an SSH key."
      />
      <div className="fields-2">
        <TextField
          label="Branch, tag or commit"
          value={draft.revision}
          onChange={(revision) => change({ revision })}
          autoComplete="off"
        />
        <TextField
          label="Path"
          value={draft.path}
          onChange={(path) => change({ path })}
          autoComplete="off"
          placeholder="apps"
        />
      </div>
      <details className="more">
        <summary>Files, project and destination</summary>
        <div className="stack details-body">
          <TextField
            label="Include files"
            value={draft.include}
            onChange={(include) => change({ include })}
            description="A pattern, such as *.yaml or {a,b}/**."
          />
          <TextField label="Exclude files" value={draft.exclude} onChange={(exclude) => change({ exclude })} />
          <TextField
            label="Project"
            value={draft.project}
            onChange={(project) => change({ project })}
            autoComplete="off"
            description="AppProject that the Git Source belongs to. Leave empty for the project default."
          />
          <TextField
            label="Namespace of its Applications"
            value={draft.destinationNamespace}
            onChange={(destinationNamespace) => change({ destinationNamespace })}
            description="Leave empty for the namespace of the runtime."
          />
        </div>
      </details>
      {!before && (
        <>
          <Checkbox isSelected={webhook} onChange={setWebhook}>
            Register a webhook, so that pushes are deployed immediately
          </Checkbox>
          {isAdmin && (
            <Checkbox isSelected={makeRepository} onChange={setMakeRepository}>
              Create the repository if it does not exist
            </Checkbox>
          )}
        </>
      )}
    </FormDialog>
  );
}
