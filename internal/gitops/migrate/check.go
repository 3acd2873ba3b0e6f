package migrate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// Finding is a reason not to move an Application.
type Finding struct {
	// Code is one word for programs.
	Code string `json:"code"`
	// Reason is the obstacle, and Fix what to do about it.
	Reason string `json:"reason"`
	Fix    string `json:"fix"`
	// Forcible findings are ignored with Force.
	Forcible bool `json:"forcible,omitempty"`
}

// String is the finding as one sentence.
func (f Finding) String() string { return f.Reason + ": " + f.Fix }

// The codes of findings.
const (
	// These are stable: scripts compare them.
	CodeUnsupported = "Unsupported"
	CodeElsewhere   = "OtherCluster"
	CodeGenerated   = "Generated"
	CodeParent      = "ParentApplication"
	CodeBusy        = "OperationRunning"
	CodeDeleted     = "BeingDeleted"
	CodeOutOfSync   = "NotSynced"
	CodeProject     = "ProjectUnsupported"
	CodeTaken       = "NameTaken"
)

// Check returns the obstacles of an Application of Argo CD. It sends no
// request: the project is checked when it is moved.
func Check(app *inspect.Application) []Finding {
	var found []Finding
	for _, refused := range app.Refused {
		found = append(found, Finding{Code: CodeUnsupported, Reason: refused.Field + " is not supported: " + refused.Message, Fix: "change the Application first, or leave it with Argo CD"})
	}
	if destination := project.Complete(app.Spec.Destination); destination.Server != project.LocalServer {
		found = append(found, Finding{
			Code: CodeElsewhere, Reason: "it is for the cluster " + destinationName(destination),
			Fix: "run a runtime in that cluster, or add the cluster with slipway cluster add, make the Application by hand and delete Argo CD's without its resources",
		})
	}
	if app.DeletionTimestamp != nil {
		found = append(found, Finding{Code: CodeDeleted, Reason: "it is being deleted", Fix: "see what it waits for in Argo CD"})
	}
	if inspect.Idle(app) != nil {
		found = append(found, Finding{Code: CodeBusy, Reason: "Argo CD is syncing it", Fix: "wait until the sync is over, or end it in Argo CD"})
	}
	if status := app.Status.Sync.Status; status != v1alpha1.SyncSynced {
		found = append(found, Finding{
			Code: CodeOutOfSync, Forcible: true, Reason: fmt.Sprintf("it is %s in Argo CD, so that the first sync of the runtime would change resources", shownSync(status)),
			Fix: "sync it in Argo CD first, or move it with --force",
		})
	}
	return append(found, writers(app)...)
}

// shownSync is the sync status for a message.
func shownSync(status v1alpha1.SyncStatusCode) string {
	if status == "" {
		return "not compared"
	}
	return string(status)
}

// destinationName is the cluster of a destination for a message.
func destinationName(destination v1alpha1.ApplicationDestination) string {
	if destination.Server != "" {
		return destination.Server
	}
	return destination.Name
}

// writers finds controllers that would write the Application again after it is
// held.
func writers(app *inspect.Application) []Finding {
	var found []Finding
	for _, owner := range app.OwnerReferences {
		found = append(found, Finding{
			Code: CodeGenerated, Reason: fmt.Sprintf("the %s %s makes it, and would undo what is changed", owner.Kind, owner.Name),
			Fix: fmt.Sprintf("have it keep resources (spec.syncPolicy.preserveResourcesOnDeletion: true) and leave this one out, then take the reference away: "+
				"kubectl -n %s patch applications.argoproj.io %s --type=json -p '[{\"op\":\"remove\",\"path\":\"/metadata/ownerReferences\"}]'", app.Namespace, app.Name),
		})
	}
	parent := app.Labels[instanceLabel]
	if id, err := tracking.ParseID(app.Annotations[tracking.Annotation]); err == nil {
		parent = id.Instance
	}
	if parent != "" {
		found = append(found, Finding{
			Code: CodeParent, Forcible: true, Reason: fmt.Sprintf("the Application %s has it in Git, and may write it again", parent),
			Fix: "take it out of Git with the annotation argocd.argoproj.io/sync-options: Prune=false on it, or turn off automated sync of " + parent + " and use --force",
		})
	}
	return found
}

// blocking returns the findings that count.
func (m *move) blocking(found []Finding) []Finding {
	return slices.DeleteFunc(found, func(f Finding) bool { return f.Forcible && m.Force })
}

// checkTarget checks whether ours can be created. Ours from an interrupted move
// of the same Application is no obstacle: the move continues with it.
func (m *move) checkTarget(ctx context.Context) ([]Finding, error) {
	if m.From.Namespace == m.To.Namespace {
		return []Finding{{Code: CodeTaken, Reason: "Argo CD and the runtime would both read the Applications of " + m.To.Namespace, Fix: "install the runtime to a namespace of its own, and name it with --to"}}, nil
	}
	if m.ours != nil && m.origin == nil {
		return []Finding{{Code: CodeTaken, Reason: fmt.Sprintf("there is an Application %s that was not moved", m.To), Fix: "choose another name with --name, or delete it without its resources"}}, nil
	}
	if m.origin != nil && m.origin.app() != m.From {
		return []Finding{{Code: CodeTaken, Reason: fmt.Sprintf("the Application %s was moved from %s", m.To, m.origin.app()), Fix: "choose another name with --name"}}, nil
	}
	return m.checkProject(ctx)
}

// checkProject checks whether the runtime has the project, or can have Argo
// CD's. It stores Argo CD's project for copyProject, which creates it later.
func (m *move) checkProject(ctx context.Context) ([]Finding, error) {
	if m.argo == nil {
		return nil, nil
	}
	name := m.argo.Spec.ProjectName()
	_, err := m.projects(m.ControlNamespace).Get(ctx, name, metav1.GetOptions{})
	if err == nil || !apierrors.IsNotFound(err) {
		return nil, wrapped("read the AppProject "+m.ControlNamespace+"/"+name, err)
	}
	theirs, err := m.argoProject(ctx, name)
	if apierrors.IsNotFound(err) && name == v1alpha1.DefaultProject {
		return nil, nil // the default project exists implicitly
	}
	if apierrors.IsNotFound(err) {
		return []Finding{{Code: CodeProject, Reason: "there is no AppProject " + name, Fix: "make it in the namespace " + m.ControlNamespace}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the AppProject %s of Argo CD: %w", name, err)
	}
	_, refused, err := v1alpha1.DecodeProject(theirs.Object)
	if err != nil {
		return nil, err
	}
	if len(refused) > 0 {
		return []Finding{{Code: CodeProject, Reason: "its AppProject " + name + " asks for what is not supported: " + v1alpha1.Summary(refused), Fix: "make an AppProject of that name in the namespace " + m.ControlNamespace + " yourself"}}, nil
	}
	m.project = theirs
	return nil, nil
}

// argoProject returns Argo CD's project. It is beside the Application, or in
// the namespace of Argo CD, which is unknown here: then it is the only project
// of the name.
func (m *move) argoProject(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	found, err := m.projects(m.From.Namespace).Get(ctx, name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return found, err
	}
	all, listing := m.projects("").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if listing != nil {
		return nil, err
	}
	others := slices.DeleteFunc(all.Items, func(each unstructured.Unstructured) bool { return each.GetNamespace() == m.ControlNamespace })
	if len(others) != 1 {
		return nil, err
	}
	return &others[0], nil
}

// wrapped adds context to an error; nil stays nil.
func wrapped(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// RefusedError has the obstacles of a move.
type RefusedError struct {
	App      tracking.App
	Findings []Finding
}

// Error lists all findings.
func (e *RefusedError) Error() string {
	lines := make([]string, 0, len(e.Findings))
	for _, finding := range e.Findings {
		lines = append(lines, finding.String())
	}
	return fmt.Sprintf("the Application %s cannot be moved, and nothing was changed: %s", e.App, strings.Join(lines, "; "))
}
