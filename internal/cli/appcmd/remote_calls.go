package appcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/kubeflags"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/revert"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// watchPause is the pause before a broken watch is opened again. It is
// constant: one command is one client, and a user waits for it.
const watchPause = time.Second

// remoteRef returns the reference of an Application for a request.
func remoteRef(place tracking.App) *runtimev1.ApplicationRef {
	return &runtimev1.ApplicationRef{Namespace: place.Namespace, Name: place.Name}
}

// decodeDetail decodes an Application from a runtime's response. The manifest
// is the object of the cluster as JSON, so the rest of the command treats it as
// one that was read directly.
func decodeDetail(detail *runtimev1.ApplicationDetail) (*application, error) {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(detail.GetManifest()); err != nil {
		return nil, fmt.Errorf("the runtime returned something that is no Application: %w", err)
	}
	return inspect.Decode(object)
}

// list implements appBackend. The runtime filters by selector, and the
// namespace is filtered here: the API has no field for it. The result is sorted
// as that of a cluster.
func (r *remoteApps) list(ctx context.Context, namespace, selector string) ([]*application, error) {
	bounded, cancel := context.WithTimeout(ctx, kubeflags.RequestTimeout)
	defer cancel()
	response, err := r.client.ListApplications(bounded, connect.NewRequest(&runtimev1.ListApplicationsRequest{Selector: selector}))
	if err != nil {
		return nil, r.explain(ctx, err)
	}
	var apps []*application
	for _, detail := range response.Msg.GetApplications() {
		app, err := decodeDetail(detail)
		if err != nil {
			return nil, err
		}
		// An empty namespace is all, as metav1.NamespaceAll.
		if namespace == "" || app.Namespace == namespace {
			apps = append(apps, app)
		}
	}
	inspect.Sort(apps)
	return apps, nil
}

// get implements appBackend. It is the first request of most commands, so it
// has a timeout and is where an unreachable runtime shows.
func (r *remoteApps) get(ctx context.Context, place tracking.App) (*application, error) {
	bounded, cancel := context.WithTimeout(ctx, kubeflags.RequestTimeout)
	defer cancel()
	response, err := r.client.GetApplication(bounded, connect.NewRequest(&runtimev1.GetApplicationRequest{Ref: remoteRef(place)}))
	if err != nil {
		return nil, r.explain(ctx, err)
	}
	return decodeDetail(response.Msg.GetApplication())
}

// tree implements appBackend. The response is a list in which parents come
// first; the tree is built from it by UID. A node with several owners appears
// below each. The response has no warnings.
func (r *remoteApps) tree(ctx context.Context, app *application, _ io.Writer) (*inspect.Node, error) {
	response, err := r.client.GetTree(ctx, connect.NewRequest(&runtimev1.GetTreeRequest{Ref: remoteRef(app.ID())}))
	if err != nil {
		return nil, r.explain(ctx, err)
	}
	root := &inspect.Node{
		Group: v1alpha1.Group, Kind: v1alpha1.KindApplication, Namespace: app.Namespace, Name: app.Name,
		Sync: inspect.ShownSync(&app.Status), Health: inspect.ShownHealth(&app.Status), Message: app.Status.Health.Message,
	}
	// known has the nodes so far by UID.
	known := map[string]*inspect.Node{}
	for _, message := range response.Msg.GetNodes() {
		ref := message.GetRef()
		node := &inspect.Node{
			Group: ref.GetGroup(), Kind: ref.GetKind(), Namespace: ref.GetNamespace(), Name: ref.GetName(),
			Sync: message.GetSync(), Health: message.GetHealth(), Message: message.GetHealthMessage(),
		}
		// A node without an owner is one of the Application's own objects.
		if len(message.GetParents()) == 0 {
			root.Children = append(root.Children, node)
		}
		for _, parent := range message.GetParents() {
			// Parents come before their children, so the result has no cycles.
			if above := known[parent]; above != nil {
				above.Children = append(above.Children, node)
			}
		}
		if ref.GetUid() != "" {
			known[ref.GetUid()] = node
		}
	}
	return root, nil
}

// diff implements appBackend. The runtime renders and does the dry run; it has
// no access to a folder of this machine.
func (r *remoteApps) diff(ctx context.Context, app *application, given *diffFlags, warnings io.Writer) ([]inspect.ObjectDiff, error) {
	if given.local != "" {
		return nil, errors.New("--local needs the cluster: a runtime renders from Git, and not from a local directory")
	}
	response, err := r.client.Diff(ctx, connect.NewRequest(&runtimev1.DiffRequest{Ref: remoteRef(app.ID()), Revision: given.revision}))
	if err != nil {
		return nil, r.explain(ctx, err)
	}
	for _, warning := range response.Msg.GetWarnings() {
		_, _ = fmt.Fprintln(warnings, "warning:", printer.Printable(warning))
	}
	// Maps the actions of the API to the states of a local comparison. An
	// unknown action is an error: counting it as equal would hide a change.
	states := map[string]plan.SyncState{"same": plan.Synced, "change": plan.OutOfSync, "create": plan.Absent, "prune": plan.Extra}
	var diffs []inspect.ObjectDiff
	for _, message := range response.Msg.GetObjects() {
		state, known := states[message.GetAction()]
		if !known {
			return nil, fmt.Errorf("the runtime returned an unknown action %q: it may be newer than this program", printer.Printable(message.GetAction()))
		}
		diffs = append(diffs, inspect.ObjectDiff{Key: remoteKey(message.GetRef()), State: state, Text: message.GetText()})
	}
	return diffs, nil
}

// remoteKey converts the reference of an object in a response into a key.
func remoteKey(ref *runtimev1.ObjectRef) tracking.Key {
	return tracking.Key{Group: ref.GetGroup(), Kind: ref.GetKind(), Namespace: ref.GetNamespace(), Name: ref.GetName()}
}

// remoteObject converts a key into the reference of an object for a request. It
// is the inverse of remoteKey.
func remoteObject(key tracking.Key) *runtimev1.ObjectRef {
	return &runtimev1.ObjectRef{Group: key.Group, Kind: key.Kind, Namespace: key.Namespace, Name: key.Name}
}

// sync implements appBackend. It flattens the operation into the fields of the
// API and returns the ID of the request as info.
func (r *remoteApps) sync(ctx context.Context, app *application, sync *v1alpha1.SyncOperation) (v1alpha1.Info, error) {
	request := &runtimev1.SyncRequest{
		Ref: remoteRef(app.ID()), Revision: sync.Revision, Prune: sync.Prune, DryRun: sync.DryRun, SyncOptions: sync.SyncOptions, Strategy: "hook",
	}
	if strategy := sync.SyncStrategy; strategy != nil {
		// The API has one force field for both strategies.
		request.Force = strategy.Hook != nil && strategy.Hook.Force || strategy.Apply != nil && strategy.Apply.Force
		if strategy.Apply != nil {
			request.Strategy = "apply"
		}
	}
	for _, chosen := range sync.Resources {
		request.Resources = append(request.Resources, remoteObject(tracking.Key{
			Group: chosen.Group, Kind: chosen.Kind, Namespace: chosen.Namespace, Name: chosen.Name,
		}))
	}
	response, err := r.client.Sync(ctx, connect.NewRequest(request))
	if err != nil {
		return v1alpha1.Info{}, r.explain(ctx, err)
	}
	return v1alpha1.Info{Name: inspect.RequestInfo, Value: response.Msg.GetRequestId()}, nil
}

// rollback implements appBackend. The runtime reads the history itself, so that
// the entry cannot change in between.
func (r *remoteApps) rollback(ctx context.Context, app *application, given *rollbackFlags) (v1alpha1.Info, error) {
	response, err := r.client.Rollback(ctx, connect.NewRequest(&runtimev1.RollbackRequest{
		Ref: remoteRef(app.ID()), HistoryId: given.id, Exact: true, Prune: given.prune, DryRun: given.dryRun,
	}))
	if err != nil {
		return v1alpha1.Info{}, r.explain(ctx, err)
	}
	return v1alpha1.Info{Name: inspect.RequestInfo, Value: response.Msg.GetRequestId()}, nil
}

// revert implements appBackend. The runtime writes to Git with the credentials of
// the project.
func (r *remoteApps) revert(ctx context.Context, app *application, given *rollbackFlags, _ io.Writer) ([]revert.Written, error) {
	response, err := r.client.Revert(ctx, connect.NewRequest(&runtimev1.RevertRequest{
		Ref: remoteRef(app.ID()), HistoryId: given.id, PullRequest: given.pullRequest,
	}))
	if err != nil {
		return nil, r.explain(ctx, err)
	}
	var written []revert.Written
	for _, one := range response.Msg.GetRepositories() {
		written = append(written, revert.Written{RepoURL: one.GetUrl(), Branch: one.GetBranch(), Commit: one.GetCommit(), PullRequest: one.GetPullRequest()})
	}
	return written, nil
}

// terminate implements appBackend. The runtime writes the request and does not
// wait for the end.
func (r *remoteApps) terminate(ctx context.Context, app *application) error {
	_, err := r.client.Terminate(ctx, connect.NewRequest(&runtimev1.TerminateRequest{Ref: remoteRef(app.ID())}))
	return r.explain(ctx, err)
}

// logs implements appBackend. The stream interleaves Pods, so every line has
// its Pod and container in front. It has no timeout: a followed log ends with
// ctx.
func (r *remoteApps) logs(ctx context.Context, app *application, given *logFlags, out, _ io.Writer) error {
	// In the protocol 0 is an unset field, for which the runtime takes its
	// default.
	if given.tail == 0 {
		return exit.UsageError{Err: errors.New("--tail 0 is not possible through the platform: use --since 1s")}
	}
	chosen, err := given.chosen(app)
	if err != nil {
		return err
	}
	request := &runtimev1.LogsRequest{
		Ref: remoteRef(app.ID()), Container: given.container, Follow: given.follow, Previous: given.previous, TailLines: given.tail,
	}
	if given.since > 0 {
		request.Since = durationpb.New(given.since)
	}
	for _, key := range chosen {
		request.Objects = append(request.Objects, remoteObject(key))
	}
	stream, err := r.client.Logs(ctx, connect.NewRequest(request))
	if err != nil {
		return r.explain(ctx, err)
	}
	defer stream.Close()
	sink := &printer.Lines{W: out}
	for stream.Receive() {
		line := stream.Msg()
		if err := sink.Write("["+line.GetPod()+"/"+line.GetContainer()+"] ", line.GetLine()); err != nil {
			return err
		}
	}
	return r.explain(ctx, stream.Err())
}

// wait implements appBackend. A watch that breaks is opened again after
// watchPause, until ctx ends: streams have a maximum duration, and platforms
// restart. A new watch starts with the current state, so a change during the
// pause is seen.
func (r *remoteApps) wait(ctx context.Context, place tracking.App, done func(*application) (string, error)) (*application, error) {
	var last *application
	missing := errors.New("no response from the runtime")
	for {
		finished, err := r.watch(ctx, place, func(app *application) (bool, error) {
			last = app
			text, err := done(app)
			// Kept for the error of a timeout.
			if text != "" {
				missing = errors.New(text)
			}
			return text == "", err
		})
		switch {
		case finished || err != nil:
			return last, err
		// The cause distinguishes a timeout from Ctrl-C, and missing names the
		// state that was not reached.
		case ctx.Err() != nil:
			return last, fmt.Errorf("%w: %w", context.Cause(ctx), missing)
		}
		_ = backoff.Sleep(ctx, watchPause) // the next watch reports the end of ctx
	}
}

// watch receives states of an Application until seen reports that it is enough,
// or the stream ends. It returns only errors that a retry cannot help with.
func (r *remoteApps) watch(ctx context.Context, place tracking.App, seen func(*application) (bool, error)) (bool, error) {
	stream, err := r.client.WatchApplication(ctx, connect.NewRequest(&runtimev1.WatchApplicationRequest{Ref: remoteRef(place)}))
	if err != nil {
		return false, r.final(ctx, place, err)
	}
	defer stream.Close()
	for stream.Receive() {
		// The last message of a deleted Application: the stream ends with it.
		if stream.Msg().GetDeleted() {
			return false, inspect.Gone(place)
		}
		app, err := decodeDetail(stream.Msg().GetApplication())
		if err != nil {
			return false, err
		}
		if enough, err := seen(app); enough || err != nil {
			return enough, err
		}
	}
	return false, r.final(ctx, place, stream.Err())
}

// final returns an error of a watch that a retry cannot help with, and nil for
// others, such as an unavailable platform or a stream that reached its maximum
// duration.
func (r *remoteApps) final(ctx context.Context, place tracking.App, err error) error {
	if ctx.Err() != nil {
		return nil // wait returns the cause
	}
	switch connect.CodeOf(err) {
	// The Application was deleted; waiting longer cannot help.
	case connect.CodeNotFound:
		return inspect.Gone(place)
	// The user has to act: a retry would fail the same way until the timeout.
	case connect.CodeUnauthenticated, connect.CodePermissionDenied, connect.CodeInvalidArgument, connect.CodeUnimplemented:
		return r.explain(ctx, err)
	}
	return nil
}
