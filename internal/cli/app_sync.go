package cli

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/plan"
)

const (
	// requestInfo marks an operation, so that its result is known from others.
	requestInfo = "slipway.dev/request"
	// refreshAnnotation has an Application looked at anew.
	refreshAnnotation = "argocd.argoproj.io/refresh"
	// patchTries is how often a change is tried that others were faster with.
	patchTries = 10
)

// syncFlags are what a sync can be asked for.
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

// operationFlags are those of every command that starts an operation.
type operationFlags struct {
	async   bool
	timeout time.Duration
}

func (o *operationFlags) add(command *cobra.Command) {
	command.Flags().BoolVar(&o.async, "async", false, "do not wait for the end")
	command.Flags().DurationVar(&o.timeout, "timeout", 0, "stop waiting after this time; the operation goes on (default: wait for the end)")
}

func appSyncCommand(access *appAccess) *cobra.Command {
	given := &syncFlags{}
	command := &cobra.Command{
		Use:   "sync APP",
		Short: "Make the cluster equal to Git",
		Long: `Asks for a sync by writing it into the Application, and waits for its end: what
is waited for is told meanwhile. The exit code is 1 when the sync failed.`,
		Example: `  slipway app sync shop
  slipway app sync shop --prune --revision v1.2.0
  slipway app sync shop --resource apps:Deployment:web --dry-run`,
		Args: oneName,
		RunE: func(command *cobra.Command, args []string) error {
			return runSync(command, access, args[0], func(app *application) (*v1alpha1.SyncOperation, error) {
				return given.operation(app)
			}, given.wait)
		},
	}
	flags := command.Flags()
	flags.StringVar(&given.revision, "revision", "", "branch, tag or commit to sync to (default that of the source)")
	flags.BoolVar(&given.prune, "prune", false, "delete what is no longer in Git")
	flags.BoolVar(&given.dryRun, "dry-run", false, "change nothing, and say what would be done")
	flags.BoolVar(&given.force, "force", false, "delete and create anew what cannot be changed")
	flags.BoolVar(&given.replace, "replace", false, "replace objects instead of applying them")
	flags.StringVar(&given.strategy, "strategy", "hook", "hook, or apply, which runs no hooks")
	flags.StringArrayVar(&given.resources, "resource", nil, "sync only this object, as group:kind:name or group:kind:namespace/name; * takes all, ! in front leaves out; may be repeated")
	flags.StringArrayVar(&given.options, "sync-option", nil, "one more sync option, such as PruneLast=true; may be repeated")
	given.wait.add(command)
	return command
}

// operation is what the flags ask for.
func (f *syncFlags) operation(app *application) (*v1alpha1.SyncOperation, error) {
	sync := &v1alpha1.SyncOperation{Prune: f.prune, DryRun: f.dryRun, SyncOptions: f.options}
	force := &v1alpha1.SyncStrategyForce{Force: f.force}
	switch f.strategy {
	case "hook":
		sync.SyncStrategy = &v1alpha1.SyncStrategy{Hook: force}
	case "apply":
		sync.SyncStrategy = &v1alpha1.SyncStrategy{Apply: force}
	default:
		return nil, usageError{fmt.Errorf("--strategy %q is neither hook nor apply", f.strategy)}
	}
	if f.replace {
		sync.SyncOptions = append(sync.SyncOptions, "Replace=true")
	}
	if _, refused := v1alpha1.ParseSyncOptions(sync.SyncOptions, "--sync-option"); len(refused) > 0 {
		return nil, usageError{errors.New(v1alpha1.Summary(refused))}
	}
	if f.revision != "" && len(app.Spec.Sources) > 0 {
		return nil, usageError{errors.New("the Application has several sources, and --revision is for one: change their targetRevision")}
	}
	sync.Revision = f.revision
	var err error
	sync.Resources, err = chooseResources(app, f.resources)
	return sync, err
}

// chooseResources finds the objects that selectors take.
func chooseResources(app *application, texts []string) ([]v1alpha1.SyncOperationResource, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	var selectors []plan.Selector
	for _, text := range texts {
		selector, err := plan.ParseSelector(text)
		if err != nil {
			return nil, usageError{fmt.Errorf("--resource %s: %w", text, err)}
		}
		selectors = append(selectors, selector)
	}
	var chosen []v1alpha1.SyncOperationResource
	var known []string
	for i := range app.Status.Resources {
		resource := &app.Status.Resources[i]
		known = append(known, resource.Group+":"+resource.Kind+":"+resource.Name)
		if taken(selectors, resource) {
			chosen = append(chosen, v1alpha1.SyncOperationResource{
				Group: resource.Group, Kind: resource.Kind, Namespace: resource.Namespace, Name: resource.Name,
			})
		}
	}
	if len(chosen) == 0 {
		return nil, usageError{fmt.Errorf("--resource takes none of the Application's objects: %s", orNone(strings.Join(known, ", ")))}
	}
	return chosen, nil
}

// taken reports whether selectors take an object: one that includes it, if any
// includes, and none that leaves it out.
func taken(selectors []plan.Selector, resource *v1alpha1.ResourceStatus) bool {
	fits := func(pattern, text string) bool { return pattern == "*" || pattern == text }
	includes, included := false, false
	for _, s := range selectors {
		match := fits(s.Group, resource.Group) && fits(s.Kind, resource.Kind) && fits(s.Name, resource.Name) &&
			(s.Namespace == "" || fits(s.Namespace, resource.Namespace))
		if s.Exclude && match {
			return false
		}
		if !s.Exclude {
			includes, included = true, included || match
		}
	}
	return included || !includes
}

// runSync asks for an operation and, unless told otherwise, waits for its end.
func runSync(command *cobra.Command, access *appAccess, name string, ask func(*application) (*v1alpha1.SyncOperation, error), wait operationFlags) error {
	cluster, err := access.open()
	if err != nil {
		return err
	}
	defer cluster.Close()
	ctx := command.Context()
	app, err := cluster.get(ctx, name)
	if err != nil {
		return err
	}
	sync, err := ask(app)
	if err != nil {
		return err
	}
	if err := idle(app); err != nil {
		return err
	}
	if sync.Source == nil && sync.Sources == nil { // a rollback knows its commits
		if app, err = cluster.refresh(ctx, app); err != nil {
			return err
		}
	}
	operation := &v1alpha1.Operation{
		Sync: sync, InitiatedBy: v1alpha1.OperationInitiator{Username: cluster.whoAmI(ctx)},
		Info: []v1alpha1.Info{{Name: requestInfo, Value: rand.Text()}},
	}
	app, err = cluster.request(ctx, app, operation)
	if err != nil {
		return err
	}
	if wait.async {
		_, err := fmt.Fprintf(command.OutOrStdout(), "A sync of %s was asked for; slipway app wait %s --operation waits for it.\n", app.id(), qualifiedName(app.object))
		return err
	}
	waiting, cancel := timeLimit(ctx, wait.timeout)
	defer cancel()
	state, err := cluster.awaitOperation(waiting, app, operation.Info[0], command.ErrOrStderr())
	if err != nil {
		return err
	}
	return operationVerdict(command.OutOrStdout(), app, state)
}

// whoAmI is the name that the API server knows us by, for the history. A server
// that does not tell is none the worse.
func (c *appCluster) whoAmI(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, appRequestTimeout)
	defer cancel()
	answer, err := c.Client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return ""
	}
	return answer.Status.UserInfo.Username
}

// refresh has the repository asked for what was pushed a moment ago. An agent
// that does not answer is not waited for: the operation will tell.
func (c *appCluster) refresh(ctx context.Context, app *application) (*application, error) {
	asked, err := c.change(ctx, app, func(*application) (map[string]any, error) {
		return map[string]any{"metadata": map[string]any{"annotations": map[string]any{refreshAnnotation: "normal"}}}, nil
	})
	if err != nil {
		return nil, err
	}
	waiting, cancel := timeLimit(ctx, agentPatience)
	defer cancel()
	refreshed, err := c.follow(waiting, asked.id(), func(app *application) (string, error) {
		if app.Annotations[refreshAnnotation] != "" {
			return "the repository has not been asked yet", nil
		}
		return "", nil
	})
	if errors.Is(err, errTimeout) {
		return asked, nil
	}
	return refreshed, err
}

// request writes an operation into the Application. One that runs or waits is
// not disturbed.
func (c *appCluster) request(ctx context.Context, app *application, operation *v1alpha1.Operation) (*application, error) {
	return c.change(ctx, app, func(app *application) (map[string]any, error) {
		return map[string]any{"operation": operation}, idle(app)
	})
}

// idle is an error while an operation is asked for or runs.
func idle(app *application) error {
	if app.Operation != nil {
		return fmt.Errorf("another operation of %s was asked for and has not begun: wait for it with slipway app wait --operation", app.id())
	}
	if state := app.Status.OperationState; state != nil && !state.Phase.Completed() {
		return fmt.Errorf("another operation of %s runs: wait for it with slipway app wait --operation, or end it with slipway app terminate", app.id())
	}
	return nil
}

// change patches an Application as it was seen. When others were faster it is
// looked at again.
func (c *appCluster) change(ctx context.Context, app *application, patch func(*application) (map[string]any, error)) (*application, error) {
	ctx, cancel := context.WithTimeout(ctx, appRequestTimeout)
	defer cancel()
	applications := c.applications(app.Namespace)
	for try := 1; ; try++ {
		content, err := patch(app)
		if err != nil {
			return nil, err
		}
		metadata, _ := content["metadata"].(map[string]any)
		if metadata == nil {
			metadata = map[string]any{}
			content["metadata"] = metadata
		}
		metadata["resourceVersion"] = app.ResourceVersion
		body, err := json.Marshal(content)
		if err != nil {
			return nil, err
		}
		changed, err := applications.Patch(ctx, app.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: "slipway-cli"})
		if err == nil {
			return decodeApplication(changed)
		}
		if !apierrors.IsConflict(err) || try == patchTries {
			return nil, c.explain(err, "patch", app.Namespace)
		}
		fresh, err := applications.Get(ctx, app.Name, metav1.GetOptions{})
		if err != nil {
			return nil, c.explain(err, "get", app.Namespace)
		}
		if app, err = decodeApplication(fresh); err != nil {
			return nil, err
		}
	}
}

// awaitOperation waits for the end of the operation that is marked.
func (c *appCluster) awaitOperation(ctx context.Context, app *application, mark v1alpha1.Info, progressTo io.Writer) (*v1alpha1.OperationState, error) {
	told := &progress{w: progressTo}
	var before metav1.Time
	if app.Status.OperationState != nil {
		before = app.Status.OperationState.StartedAt
	}
	var begun atomic.Bool
	hint := time.AfterFunc(agentPatience, func() {
		if !begun.Load() {
			told.say("nobody has begun yet: does an agent run (slipway agent), and does it read the namespace " + app.Namespace + "?")
		}
	})
	defer hint.Stop()
	last, err := c.follow(ctx, app.id(), func(app *application) (string, error) {
		state := app.Status.OperationState
		switch {
		case app.Operation != nil && hasInfo(app.Operation.Info, mark):
			return "the sync has not begun", nil
		case state != nil && hasInfo(state.Operation.Info, mark):
			begun.Store(true)
			if state.Phase.Completed() {
				return "", nil
			}
			told.say(withMessage(string(state.Phase), state.Message))
			return withMessage(string(state.Phase), state.Message), nil
		case state != nil && state.StartedAt.After(before.Time):
			return "", errors.New("another operation took the place of this one: see slipway app get")
		}
		return "the sync has not begun", nil
	})
	if errors.Is(err, errTimeout) {
		return nil, fmt.Errorf("%w; the operation goes on, and slipway app terminate ends it", err)
	}
	if err != nil {
		return nil, err
	}
	return last.Status.OperationState, nil
}

func hasInfo(infos []v1alpha1.Info, mark v1alpha1.Info) bool {
	for _, info := range infos {
		if info == mark {
			return true
		}
	}
	return false
}

// operationVerdict prints what was done, and fails when that failed.
func operationVerdict(w io.Writer, app *application, state *v1alpha1.OperationState) error {
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
		return fmt.Errorf("the sync of %s to %s: %s", app.id(), orNone(revision), withMessage(string(state.Phase), state.Message))
	}
	_, err := fmt.Fprintf(w, "\n%s is synced to %s: %s\n", app.id(), orNone(revision), printable(state.Message))
	return err
}
