package appcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/plan"
)

// syncFlags are the options of a sync, as argocd app sync has them.
type syncFlags struct {
	revision  string
	prune     bool
	dryRun    bool
	force     bool
	replace   bool
	strategy  string
	resources []string
	options   []string
	wait      operationFlags
}

// operationFlags are common to the commands that start an operation. A timeout
// ends the wait and never the operation.
type operationFlags struct {
	async   bool
	timeout time.Duration
}

// add adds the flags to a command.
func (o *operationFlags) add(command *cobra.Command) {
	command.Flags().BoolVar(&o.async, "async", false, "do not wait for the operation to finish")
	command.Flags().DurationVar(&o.timeout, "timeout", 0, "stop waiting after this time; the operation continues (default: wait until it finishes)")
}

// appSyncCommand returns the command that requests a sync and waits for its
// end.
func appSyncCommand(access *appAccess) *cobra.Command {
	given := &syncFlags{}
	command := &cobra.Command{
		Use:   "sync APP",
		Short: "Sync an Application with Git",
		Long: `Requests a sync by writing the operation into the Application, shows its progress and
waits until it finishes. The exit code is 1 when the sync failed.`,
		Example: `  slipway app sync shop
  slipway app sync shop --prune --revision v1.2.0
  slipway app sync shop --resource apps:Deployment:web --dry-run`,
		Args: oneName,
		RunE: func(command *cobra.Command, args []string) error {
			request := func(ctx context.Context, backend appBackend, app *application) (v1alpha1.Info, error) {
				sync, err := given.operation(app)
				if err != nil {
					return v1alpha1.Info{}, err
				}
				return backend.sync(ctx, app, sync)
			}
			return runOperation(command, access, args[0], request, given.wait)
		},
	}
	flags := command.Flags()
	flags.StringVar(&given.revision, "revision", "", "branch, tag or commit to sync to (default that of the source)")
	flags.BoolVar(&given.prune, "prune", false, "delete objects that are no longer in Git")
	flags.BoolVar(&given.dryRun, "dry-run", false, "show what would be done without changing anything")
	flags.BoolVar(&given.force, "force", false, "delete and recreate objects that cannot be updated")
	flags.BoolVar(&given.replace, "replace", false, "replace objects instead of applying them")
	flags.StringVar(&given.strategy, "strategy", "hook", "hook, or apply, which runs no hooks")
	flags.StringArrayVar(&given.resources, "resource", nil, "sync only this object, as group:kind:name or group:kind:namespace/name; * selects all, a leading ! excludes; may be repeated")
	flags.StringArrayVar(&given.options, "sync-option", nil, "additional sync option, such as PruneLast=true; may be repeated")
	given.wait.add(command)
	return command
}

// operation builds the requested operation and refuses wrong options here,
// where the user can correct them, and not in the agent, where they would fail
// the operation.
func (f *syncFlags) operation(app *application) (*v1alpha1.SyncOperation, error) {
	sync := &v1alpha1.SyncOperation{Prune: f.prune, DryRun: f.dryRun, SyncOptions: f.options}
	// The strategy is always set, so that the result does not depend on a
	// default of the agent.
	force := &v1alpha1.SyncStrategyForce{Force: f.force}
	switch f.strategy {
	case "hook":
		sync.SyncStrategy = &v1alpha1.SyncStrategy{Hook: force}
	case "apply":
		sync.SyncStrategy = &v1alpha1.SyncStrategy{Apply: force}
	default:
		return nil, exit.UsageError{Err: fmt.Errorf("--strategy %q is neither hook nor apply", f.strategy)}
	}
	// --replace is shorthand for the sync option, as in argocd.
	if f.replace {
		sync.SyncOptions = append(sync.SyncOptions, "Replace=true")
	}
	// Parsed by the agent's own code, so both accept the same options.
	if _, refused := v1alpha1.ParseSyncOptions(sync.SyncOptions, "--sync-option"); len(refused) > 0 {
		return nil, exit.UsageError{Err: errors.New(refusal.Summary(refused))}
	}
	// With several sources it would be unclear which one the revision is for.
	if f.revision != "" && len(app.Spec.Sources) > 0 {
		return nil, exit.UsageError{Err: errors.New("the Application has several sources, and --revision is for one: change their targetRevision")}
	}
	sync.Revision = f.revision
	var err error
	sync.Resources, err = chooseResources(app, f.resources)
	return sync, err
}

// chooseResources returns the objects of the status that selectors match;
// without selectors it returns nil, which is all. Matching nothing is an error:
// the agent would take an empty list for all.
func chooseResources(app *application, texts []string) ([]v1alpha1.SyncOperationResource, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	var selectors []plan.Selector
	for _, text := range texts {
		selector, err := plan.ParseSelector(text)
		if err != nil {
			return nil, exit.UsageError{Err: fmt.Errorf("--resource %s: %w", text, err)}
		}
		selectors = append(selectors, selector)
	}
	var chosen []v1alpha1.SyncOperationResource
	var known []string
	for i := range app.Status.Resources {
		resource := &app.Status.Resources[i]
		// Collected for the error below, in the form that --resource takes.
		known = append(known, resource.Group+":"+resource.Kind+":"+resource.Name)
		if taken(selectors, resource) {
			chosen = append(chosen, v1alpha1.SyncOperationResource{
				Group: resource.Group, Kind: resource.Kind, Namespace: resource.Namespace, Name: resource.Name,
			})
		}
	}
	if len(chosen) == 0 {
		return nil, exit.UsageError{Err: fmt.Errorf("--resource takes none of the Application's objects: %s", printer.OrDash(strings.Join(known, ", ")))}
	}
	return chosen, nil
}

// taken reports whether selectors match an object: one includes it, if any
// selector includes, and none excludes it. A selector without a namespace
// matches all namespaces.
func taken(selectors []plan.Selector, resource *v1alpha1.ResourceStatus) bool {
	fits := func(pattern, text string) bool { return pattern == "*" || pattern == text }
	includes, included := false, false
	for _, s := range selectors {
		match := fits(s.Group, resource.Group) && fits(s.Kind, resource.Kind) && fits(s.Name, resource.Name) &&
			(s.Namespace == "" || fits(s.Namespace, resource.Namespace))
		// An exclusion wins over every inclusion, regardless of the order.
		if s.Exclude && match {
			return false
		}
		if !s.Exclude {
			includes, included = true, included || match
		}
	}
	return included || !includes
}

// requestOperation requests an operation, and returns the info that identifies it.
// Sync and rollback each have one.
type requestOperation func(ctx context.Context, backend appBackend, app *application) (v1alpha1.Info, error)

// runOperation requests an operation and, unless --async is set, waits for its
// end, prints its results, and returns an error if it failed.
func runOperation(command *cobra.Command, access *appAccess, name string, request requestOperation, wait operationFlags) error {
	ctx := command.Context()
	backend, app, err := access.find(ctx, name)
	if err != nil {
		return err
	}
	defer backend.close()
	// The state before the request is kept in app: awaitOperation needs it.
	mark, err := request(ctx, backend, app)
	if err != nil {
		return err
	}
	if wait.async {
		_, err := fmt.Fprintf(command.OutOrStdout(), "A sync of %s was requested; slipway app wait %s --operation waits for it.\n", app.ID(), qualifiedName(app.Object))
		return err
	}
	waiting, cancel := timeLimit(ctx, wait.timeout)
	defer cancel()
	state, err := awaitOperation(waiting, backend, app, mark, command.ErrOrStderr())
	if err != nil {
		return err
	}
	return operationOutcome(command.OutOrStdout(), app, state)
}

// awaitOperation waits for the end of the operation with the info and returns
// its state. It recognises its own operation by the info, because another user
// may start one meanwhile; that ends the wait with an error.
func awaitOperation(ctx context.Context, backend appBackend, app *application, mark v1alpha1.Info, progressTo io.Writer) (*v1alpha1.OperationState, error) {
	printed := &progress{w: progressTo}
	// An earlier operation that is still in the status must not be taken for
	// this one.
	before := inspect.LastBegan(app)
	// The timer reads it in its own goroutine.
	var begun atomic.Bool
	// Without a running agent the wait would show nothing: a request that is
	// not taken up within AgentTimeout gets a hint.
	hint := time.AfterFunc(inspect.AgentTimeout, func() {
		if !begun.Load() {
			printed.print("the sync has not begun yet: is the agent running, and does it watch the namespace " + app.Namespace + "?")
		}
	})
	defer hint.Stop()
	last, err := backend.wait(ctx, app.ID(), func(app *application) (string, error) {
		found := inspect.ProgressOf(app, mark, before)
		switch {
		case found.Lost:
			return "", fmt.Errorf("another operation took the place of this one: see slipway app get %s", app.ID())
		case found.State == nil:
			return "the sync has not begun", nil
		}
		begun.Store(true)
		// A failed operation is complete too; operationVerdict turns it into an
		// error.
		if found.State.Phase.Completed() {
			return "", nil
		}
		missing := printer.WithMessage(string(found.State.Phase), found.State.Message)
		printed.print(missing)
		return missing, nil
	})
	// The request stays in the Application, so ending the wait does not end the
	// operation.
	if errors.Is(err, errTimeout) {
		return nil, fmt.Errorf("%w; the operation goes on, and slipway app terminate %s ends it", err, app.ID())
	}
	if err != nil {
		return nil, err
	}
	return last.Status.OperationState, nil
}

// operationOutcome prints the results, and returns an error if the operation
// did not succeed, which makes the exit code 1.
func operationOutcome(w io.Writer, app *application, state *v1alpha1.OperationState) error {
	revision := ""
	if state.SyncResult != nil {
		revision = shownRevision(state.SyncResult.Revision, state.SyncResult.Revisions)
		var results []*v1alpha1.ResourceResult
		for i := range state.SyncResult.Resources {
			results = append(results, &state.SyncResult.Resources[i])
		}
		if err := printResultTable(w, results); err != nil {
			return err
		}
	}
	if state.Phase != v1alpha1.OperationSucceeded {
		return fmt.Errorf("the sync of %s to %s: %s", app.ID(), printer.OrDash(revision), printer.WithMessage(string(state.Phase), state.Message))
	}
	_, err := fmt.Fprintf(w, "\n%s is synced to %s: %s\n", app.ID(), printer.OrDash(revision), printer.Printable(state.Message))
	return err
}
