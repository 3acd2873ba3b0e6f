package inspect

import (
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
	// RequestInfo marks an operation, so that its result is known from others.
	RequestInfo = "slipway.dev/request"
	// refreshAnnotation has an Application looked at anew.
	refreshAnnotation = "argocd.argoproj.io/refresh"
	// resourcesFinalizer has the resources of an Application deleted with it. There
	// are two more, with /foreground and /background behind it.
	resourcesFinalizer = "resources-finalizer.argocd.argoproj.io"
	// AgentPatience is how long a request may wait before somebody is told that
	// there may be no agent.
	AgentPatience = 10 * time.Second
)

// ErrTimeout ends a wait that took too long.
var ErrTimeout = errors.New("it took too long")

// BusyError says that an operation of an Application is asked for or runs.
type BusyError struct{ text string }

// Error says what to do.
func (e *BusyError) Error() string { return e.text }

// Idle is a *[BusyError] while an operation is asked for or runs.
func Idle(app *Application) error {
	if app.Operation != nil {
		return &BusyError{fmt.Sprintf("another operation of %s was asked for and has not begun: wait for it with slipway app wait --operation", app.ID())}
	}
	if state := app.Status.OperationState; state != nil && !state.Phase.Completed() {
		return &BusyError{fmt.Sprintf("another operation of %s runs: wait for it with slipway app wait --operation, or end it with slipway app terminate", app.ID())}
	}
	return nil
}

// Sync asks for a sync by writing it into the Application, and gives the mark of
// the operation. One that runs or waits is not disturbed. What was pushed a
// moment ago is part of it, unless the sync knows its sources, as a rollback does.
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
	operation := &v1alpha1.Operation{
		Sync: sync, InitiatedBy: v1alpha1.OperationInitiator{Username: username}, Info: []v1alpha1.Info{mark},
	}
	asked, err := i.Change(ctx, app, func(app *Application) (map[string]any, error) {
		return map[string]any{"operation": operation}, Idle(app)
	})
	return asked, mark, err
}

// Refresh has an Application looked at anew; hard forgets what was rendered.
func (i *Inspector) Refresh(ctx context.Context, app *Application, hard bool) (*Application, error) {
	kind := "normal"
	if hard {
		kind = "hard"
	}
	return i.Change(ctx, app, func(*Application) (map[string]any, error) {
		return map[string]any{"metadata": map[string]any{"annotations": map[string]any{refreshAnnotation: kind}}}, nil
	})
}

// refreshed has the repository asked for what was pushed a moment ago. An agent
// that does not answer is not waited for: the operation will tell.
func (i *Inspector) refreshed(ctx context.Context, app *Application) (*Application, error) {
	asked, err := i.Refresh(ctx, app, false)
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeoutCause(ctx, AgentPatience, ErrTimeout)
	defer cancel()
	done, err := i.Follow(waiting, asked.ID(), func(app *Application) (string, error) {
		if app.Annotations[refreshAnnotation] != "" {
			return "the repository has not been asked yet", nil
		}
		return "", nil
	})
	if errors.Is(err, ErrTimeout) {
		return asked, nil
	}
	return done, err
}

// Terminate ends the operation that runs, or that was asked for.
func (i *Inspector) Terminate(ctx context.Context, app *Application) (*Application, error) {
	return i.Change(ctx, app, func(app *Application) (map[string]any, error) {
		state := app.Status.OperationState
		switch {
		case app.Operation != nil && (state == nil || state.Phase.Completed()):
			return map[string]any{"operation": nil}, nil // it has not begun
		case state == nil || state.Phase.Completed():
			return nil, &StateError{fmt.Sprintf("no operation of %s runs: there is nothing to end", app.ID())}
		}
		return map[string]any{"status": map[string]any{"operationState": map[string]any{"phase": v1alpha1.OperationTerminating}}}, nil
	})
}

// StateError says that an Application is not in the state that a request needs.
type StateError struct{ text string }

// Error says what the state is.
func (e *StateError) Error() string { return e.text }

// SyncBefore is the id of the sync before the last one.
func SyncBefore(app *Application) (int64, error) {
	history := app.Status.History
	if len(history) < 2 {
		return 0, &StateError{fmt.Sprintf("%s has no sync before the last one", app.ID())}
	}
	return history[len(history)-2].ID, nil
}

// RollbackTo is the sync to a past one.
func RollbackTo(app *Application, id int64) (*v1alpha1.SyncOperation, error) {
	if app.Spec.SyncPolicy.IsAutomated() {
		return nil, &StateError{fmt.Sprintf("%s is synced automatically, which would undo the rollback: turn it off first, with spec.syncPolicy.automated.enabled: false", app.ID())}
	}
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
	there := strings.Join(known, ", ")
	if there == "" {
		there = "-"
	}
	return nil, &StateError{fmt.Sprintf("%s has no past sync %d: there are %s", app.ID(), id, there)}
}

// Progress is how far an operation with a mark is.
type Progress struct {
	// State is that of the operation; nil until it begins.
	State *v1alpha1.OperationState
	// Lost: another operation took its place.
	Lost bool
}

// ProgressOf finds the operation that is marked. before is when the last one
// began that was there when it was asked for.
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

// LastBegan is when the last operation of an Application began.
func LastBegan(app *Application) metav1.Time {
	if app.Status.OperationState == nil {
		return metav1.Time{}
	}
	return app.Status.OperationState.StartedAt
}

// Delete deletes an Application: its resources too if cascade is set, and else
// they stay as they are.
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

// finalizersFor are those of the Application with or without the one that has
// its resources deleted.
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
