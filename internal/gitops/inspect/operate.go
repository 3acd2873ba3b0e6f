package inspect

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

const (
	// RequestInfo marks an operation, so that its result can be identified.
	RequestInfo = "slipway.dev/request"
	// refreshAnnotation requests a comparison with Git.
	refreshAnnotation = "argocd.argoproj.io/refresh"
	// resourcesFinalizer deletes the objects of an Application with it. There
	// are two variants, with the suffixes /foreground and /background.
	resourcesFinalizer = "resources-finalizer.argocd.argoproj.io"
	// AgentTimeout is how long a request may wait before the user is warned
	// that no agent may be running.
	AgentTimeout = 10 * time.Second
)

// ErrTimeout ends a wait that took too long.
var ErrTimeout = errors.New("it took too long")

// BusyError means that an operation is requested or running.
type BusyError struct{ text string }

// Error explains what to do.
func (e *BusyError) Error() string { return e.text }

// Idle returns a *[BusyError] while an operation is requested or running.
func Idle(app *Application) error {
	// The status comes first: the agent removes the request of an operation
	// after it has written that it runs.
	if state := app.Status.OperationState; state != nil && !state.Phase.Completed() {
		return &BusyError{fmt.Sprintf("another operation of %[1]s runs: wait for it with slipway app wait %[1]s --operation, or end it with slipway app terminate %[1]s", app.ID())}
	}
	if app.Operation != nil {
		return &BusyError{fmt.Sprintf("another operation of %[1]s was requested and has not started: wait for it with slipway app wait %[1]s --operation", app.ID())}
	}
	return nil
}

// Sync requests a sync by writing it into the Application, and returns the mark
// of the operation. A running or waiting operation is not disturbed. Commits
// that were pushed a moment ago are included, unless the sync has its own
// sources, as a rollback does.
func (i *Inspector) Sync(ctx context.Context, app *Application, sync *v1alpha1.SyncOperation, username string) (*Application, v1alpha1.Info, error) {
	mark := v1alpha1.Info{Name: RequestInfo, Value: rand.Text()}
	if err := Idle(app); err != nil {
		return nil, mark, err
	}
	if sync.Source == nil && sync.Sources == nil {
		refreshed, err := i.refreshed(ctx, app)
		if err != nil {
			return nil, mark, err
		}
		app = refreshed
	}
	// The mark identifies this request in the status of the operation.
	operation := &v1alpha1.Operation{
		Sync: sync, InitiatedBy: v1alpha1.OperationInitiator{Username: username}, Info: []v1alpha1.Info{mark},
	}
	requested, err := i.Change(ctx, app, func(app *Application) (map[string]any, error) {
		return map[string]any{"operation": operation}, Idle(app)
	})
	return requested, mark, err
}

// Refresh requests a comparison with Git; hard drops the rendered manifests.
func (i *Inspector) Refresh(ctx context.Context, app *Application, hard bool) (*Application, error) {
	kind := "normal"
	if hard {
		kind = "hard"
	}
	return i.Change(ctx, app, func(*Application) (map[string]any, error) {
		return map[string]any{"metadata": map[string]any{"annotations": map[string]any{refreshAnnotation: kind}}}, nil
	})
}

// refreshed makes the agent poll the repository before a sync. It does not wait
// for an agent that does not respond: the operation will show that.
func (i *Inspector) refreshed(ctx context.Context, app *Application) (*Application, error) {
	requested, err := i.Refresh(ctx, app, false)
	if err != nil {
		return nil, err
	}
	// The agent removes the annotation when it has polled the repository.
	waiting, cancel := context.WithTimeoutCause(ctx, AgentTimeout, ErrTimeout)
	defer cancel()
	done, err := i.Follow(waiting, requested.ID(), func(app *Application) (string, error) {
		if app.Annotations[refreshAnnotation] != "" {
			return "the repository has not been polled yet", nil
		}
		return "", nil
	})
	if errors.Is(err, ErrTimeout) {
		return requested, nil
	}
	return done, err
}

// Terminate ends the running or the requested operation.
func (i *Inspector) Terminate(ctx context.Context, app *Application) (*Application, error) {
	return i.Change(ctx, app, func(app *Application) (map[string]any, error) {
		state := app.Status.OperationState
		switch {
		// The requested operation has not started, so that removing it is
		// enough.
		case app.Operation != nil && (state == nil || state.Phase.Completed()):
			return map[string]any{"operation": nil}, nil // it has not begun
		case state == nil || state.Phase.Completed():
			return nil, &StateError{fmt.Sprintf("no operation of %s runs: there is nothing to end", app.ID())}
		}
		// The agent sees the phase and ends the operation in order.
		return map[string]any{"status": map[string]any{"operationState": map[string]any{"phase": v1alpha1.OperationTerminating}}}, nil
	})
}

// StateError means that an Application is not in the state that a request
// needs.
type StateError struct{ text string }

// Error describes the state.
func (e *StateError) Error() string { return e.text }

// SyncBefore returns the id of the sync before the last one.
func SyncBefore(app *Application) (int64, error) {
	history := app.Status.History
	if len(history) < 2 {
		return 0, &StateError{fmt.Sprintf("%s has no sync before the last one", app.ID())}
	}
	return history[len(history)-2].ID, nil
}

// RollbackTo returns the operation that syncs to a past revision. An Application
// with automated syncs is held there.
func RollbackTo(app *Application, id int64) (*v1alpha1.SyncOperation, error) {
	history := app.Status.History
	var known []string
	for i := range history {
		entry := &history[i]
		if entry.ID != id {
			known = append(known, strconv.FormatInt(entry.ID, 10))
			continue
		}
		return &v1alpha1.SyncOperation{
			Revision: entry.Revision, Revisions: entry.Revisions, Source: entry.Source, Sources: entry.Sources,
		}, nil
	}
	there := cmp.Or(strings.Join(known, ", "), "-")
	return nil, &StateError{fmt.Sprintf("%s has no past sync %d: there are %s", app.ID(), id, there)}
}

// Progress is the state of a marked operation.
type Progress struct {
	// State is nil until the operation starts.
	State *v1alpha1.OperationState
	// Lost means that another operation took its place.
	Lost bool
}

// ProgressOf finds the marked operation. before is when the last operation
// started that existed at the time of the request.
func ProgressOf(app *Application, mark v1alpha1.Info, before metav1.Time) Progress {
	state := app.Status.OperationState
	switch {
	case app.Operation != nil && slices.Contains(app.Operation.Info, mark):
		return Progress{}
	case state != nil && slices.Contains(state.Operation.Info, mark):
		return Progress{State: state}
	case state != nil && state.StartedAt.After(before.Time):
		return Progress{Lost: true}
	}
	return Progress{}
}

// LastBegan returns when the last operation of an Application started.
func LastBegan(app *Application) metav1.Time {
	if app.Status.OperationState == nil {
		return metav1.Time{}
	}
	return app.Status.OperationState.StartedAt
}

// Delete deletes an Application, with its objects if cascade is set. Otherwise
// they stay.
func (i *Inspector) Delete(ctx context.Context, app *Application, cascade bool) error {
	app, err := i.Change(ctx, app, func(app *Application) (map[string]any, error) {
		return map[string]any{"metadata": map[string]any{"finalizers": finalizersFor(app, cascade)}}, nil
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	uid := app.UID
	err = i.Applications(app.Namespace).Delete(ctx, app.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil {
		return &AccessError{Verb: "delete", Namespace: app.Namespace, Err: err}
	}
	return nil
}

// finalizersFor returns the finalizers with or without the one that deletes the
// objects.
func finalizersFor(app *Application, cascade bool) []string {
	others := []string{}
	cascading := false
	for _, name := range app.Finalizers {
		if name != resourcesFinalizer && !strings.HasPrefix(name, resourcesFinalizer+"/") {
			others = append(others, name)
			continue
		}
		if cascade {
			others, cascading = append(others, name), true
		}
	}
	if cascade && !cascading {
		others = append(others, resourcesFinalizer)
	}
	return others
}
