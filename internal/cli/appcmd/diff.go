package appcmd

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/render"
)

// diffFlags select the manifests that are compared with the cluster. local and
// revision exclude each other.
type diffFlags struct {
	local    string
	revision string
	// controlNamespace has the credentials of repositories. A runtime uses its
	// own and ignores it.
	controlNamespace string
}

// appDiffCommand returns the command that shows what a sync would change. Its
// exit codes are those of diff(1): 1 for differences, 2 for an error, so every
// error becomes a Status here.
func appDiffCommand(access *appAccess) *cobra.Command {
	given := &diffFlags{}
	command := &cobra.Command{
		Use:   "diff APP",
		Short: "Show what a sync would change",
		Long: `Renders the sources of an Application locally, sends a dry run of the apply to the
API server, and prints the differences. Nothing is changed. Values of Secrets are not
shown.

It uses your own permissions: repositories are opened with the credentials in the
cluster if you may read these Secrets, and the dry run requires permission to patch
the objects.

The exit code is 0 without differences, 1 with differences, and 2 on errors.`,
		Example: `  slipway app diff shop
  slipway app diff shop --revision feature
  slipway app diff shop --local .`,
		Args: oneName,
		RunE: func(command *cobra.Command, args []string) error {
			different, err := given.run(command, access, args[0])
			switch {
			case err != nil:
				return exit.Status{Code: exit.Usage, Err: err}
			case different:
				return exit.Status{Code: exit.Different}
			}
			return nil
		},
	}
	flags := command.Flags()
	flags.StringVar(&given.local, "local", "", "local directory to use instead of the repository: the root of a checkout")
	flags.StringVar(&given.revision, "revision", "", "branch, tag or commit to compare with (default that of the source)")
	flags.StringVar(&given.controlNamespace, "control-namespace", "argocd", "control namespace of the agent, which has the credentials")
	return command
}

// run compares and prints, and reports whether anything differs. Differences
// that were found before an error are still printed: one object that fails its
// dry run should not hide the rest.
func (f *diffFlags) run(command *cobra.Command, access *appAccess, name string) (bool, error) {
	if f.local != "" && f.revision != "" {
		return false, errors.New("--local and --revision do not go together: a folder has no revisions")
	}
	ctx := command.Context()
	backend, app, err := access.find(ctx, name)
	if err != nil {
		return false, err
	}
	defer backend.close()
	diffs, err := backend.diff(ctx, app, f, command.ErrOrStderr())
	counts := map[plan.SyncState]int{}
	for _, diff := range diffs {
		// Equal objects are not printed.
		if diff.State == plan.Synced {
			continue
		}
		counts[diff.State]++
		if _, err := io.WriteString(command.OutOrStdout(), printer.PrintableLines(diff.Text)); err != nil {
			return false, err
		}
	}
	if err != nil {
		return false, err
	}
	// The summary goes to standard error: standard output is a diff that other
	// tools read.
	different := counts[plan.OutOfSync]+counts[plan.Absent]+counts[plan.Extra] > 0
	if different {
		_, _ = fmt.Fprintf(command.ErrOrStderr(), "%d changed, %d new, %d no longer in Git (deleted by a sync with prune)\n",
			counts[plan.OutOfSync], counts[plan.Absent], counts[plan.Extra])
	}
	return different, nil
}

// diff implements appBackend. It renders on this machine and compares with a
// dry run of the apply, so that defaults and admission webhooks of the API
// server are part of the comparison.
func (c *appCluster) diff(ctx context.Context, app *application, given *diffFlags, warnings io.Writer) ([]inspect.ObjectDiff, error) {
	// The agent would refuse to sync an Application with unsupported fields, so
	// a diff of it would promise a sync that never happens.
	if err := inspect.Syncable(app); err != nil {
		return nil, err
	}
	// Kinds caches discovery for the whole comparison.
	compared := &inspect.Comparison{
		Inspector: c.Inspector, App: app, Kinds: live.NewKinds(c.Cluster), ControlNamespace: given.controlNamespace,
		Warn: func(text string) { _, _ = fmt.Fprintln(warnings, "warning:", printer.Printable(text)) },
	}
	var err error
	if compared.Settings, err = c.ReadSettings(ctx, given.controlNamespace); err != nil {
		compared.Warn("differences that settings ignore are shown: " + err.Error())
	}
	compared.Server = project.Complete(app.Spec.Destination).Server
	rendered, err := c.render(ctx, compared, given, warnings)
	if err != nil {
		return nil, err
	}
	return compared.Run(ctx, rendered)
}

// render renders the sources of the Application in a worker process of its own,
// with the default limits of the renderer. The sources are removed and the
// worker ends before it returns.
func (c *appCluster) render(ctx context.Context, compared *inspect.Comparison, given *diffFlags, warnings io.Writer) ([]*unstructured.Unstructured, error) {
	inputs, closeInputs, err := given.inputs(ctx, c, compared, warnings)
	if err != nil {
		return nil, err
	}
	defer closeInputs()
	renderer, err := render.New(render.Options{Workers: 1})
	if err != nil {
		return nil, err
	}
	rendered, err := compared.Render(ctx, renderer, inputs)
	return rendered, errors.Join(err, renderer.Close())
}
