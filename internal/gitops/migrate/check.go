package migrate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// The codes of findings. These are stable: scripts compare them.
const (
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

// obstacle returns a finding that stops a move.
func obstacle(code, message, fix string) finding.Finding {
	return finding.Finding{Code: code, Severity: finding.Error, Message: message, Fix: fix}
}

// Check returns the obstacles of an Application of Argo CD; Force ignores
// warnings. It sends no request: the project is checked when it is moved.
func Check(app *inspect.Application) []finding.Finding {
	var found []finding.Finding
	for _, refused := range app.Refused {
		found = append(found, obstacle(CodeUnsupported, refused.Field+" is not supported: "+refused.Message, "change the Application first, or leave it with Argo CD"))
	}
	if destination := project.Complete(app.Spec.Destination); destination.Server != project.LocalServer {
		found = append(found, obstacle(CodeElsewhere, "it is for the cluster "+cmp.Or(destination.Server, destination.Name),
			"run a runtime in that cluster, or add the cluster with slipway cluster add NAME, make the Application by hand and delete Argo CD's without its resources"))
	}
	if app.DeletionTimestamp != nil {
		found = append(found, obstacle(CodeDeleted, "it is being deleted", "see what it waits for in Argo CD"))
	}
	if inspect.Idle(app) != nil {
		found = append(found, obstacle(CodeBusy, "Argo CD is syncing it", "wait until the sync is over, or end it in Argo CD"))
	}
	if status := app.Status.Sync.Status; status != v1alpha1.SyncSynced {
		found = append(found, finding.Finding{
			Code: CodeOutOfSync, Severity: finding.Warning, Message: fmt.Sprintf("it is %s in Argo CD, so that the first sync of the runtime would change resources", shownSync(status)),
			Fix: "sync it in Argo CD first, or move it with --force",
		})
	}
	return append(found, writers(app)...)
}

// shownSync returns the state of sync for people.
func shownSync(status v1alpha1.SyncStatusCode) string { return cmp.Or(string(status), "not compared") }

// writers finds controllers that would write the Application again after it is
// held.
func writers(app *inspect.Application) []finding.Finding {
	var found []finding.Finding
	for _, owner := range app.OwnerReferences {
		found = append(found, obstacle(CodeGenerated, fmt.Sprintf("the %s %s generates it, and would revert the changes", owner.Kind, owner.Name),
			fmt.Sprintf("move it with its Applications: slipway migrate argocd --set %s/%s --take-over", app.Namespace, owner.Name)))
	}
	parent := app.Labels[instanceLabel]
	if id, err := tracking.ParseID(app.Annotations[tracking.Annotation]); err == nil {
		parent = id.Instance
	}
	if parent != "" {
		found = append(found, finding.Finding{
			Code: CodeParent, Severity: finding.Warning, Message: fmt.Sprintf("the Application %s has it in Git, and may write it again", parent),
			Fix: "take it out of Git with the annotation argocd.argoproj.io/sync-options: Prune=false on it, or turn off automated sync of " + parent + " and use --force",
		})
	}
	return found
}

// blocking returns the findings that count.
func (m *move) blocking(found []finding.Finding) []finding.Finding {
	return slices.DeleteFunc(found, func(f finding.Finding) bool { return f.Severity == finding.Warning && m.Force })
}

// checkTarget checks whether ours can be created. Ours from an interrupted move
// of the same Application is no obstacle: the move continues with it.
func (m *move) checkTarget(ctx context.Context) ([]finding.Finding, error) {
	if m.From.Namespace == m.To.Namespace {
		return []finding.Finding{obstacle(CodeTaken, "Argo CD and the runtime would both read the Applications of "+m.To.Namespace, "install the runtime to a namespace of its own, and name it with --to")}, nil
	}
	if m.ours != nil && m.origin == nil {
		return []finding.Finding{obstacle(CodeTaken, fmt.Sprintf("there is an Application %s that was not moved", m.To), "choose another name with --name, or delete it without its resources")}, nil
	}
	if m.origin != nil && m.origin.app() != m.From {
		return []finding.Finding{obstacle(CodeTaken, fmt.Sprintf("the Application %s was moved from %s", m.To, m.origin.app()), "choose another name with --name")}, nil
	}
	return m.checkProject(ctx)
}

// checkProject checks whether the runtime has the project, or can have Argo
// CD's. It stores Argo CD's project for copyProject, which creates it later.
func (m *move) checkProject(ctx context.Context) ([]finding.Finding, error) {
	if m.argo == nil {
		return nil, nil
	}
	name := m.argo.Spec.ProjectName()
	ours, err := m.projects(m.ControlNamespace).Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		return m.checkGlobals(ctx, ours)
	}
	if !apierrors.IsNotFound(err) {
		return nil, wrapped("read the AppProject "+m.ControlNamespace+"/"+name, err)
	}
	theirs, err := m.argoProject(ctx, name)
	if apierrors.IsNotFound(err) && name == v1alpha1.DefaultProject {
		return m.checkGlobals(ctx, &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}}}) // it exists implicitly
	}
	if apierrors.IsNotFound(err) {
		return []finding.Finding{obstacle(CodeProject, "there is no AppProject "+name, "make it in the namespace "+m.ControlNamespace)}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the AppProject %s of Argo CD: %w", name, err)
	}
	_, refused, err := v1alpha1.DecodeProject(theirs.Object)
	if err != nil {
		return nil, err
	}
	if len(refused) > 0 {
		return []finding.Finding{obstacle(CodeProject, "its AppProject "+name+" uses an unsupported setting: "+refusal.Summary(refused), "make an AppProject of that name in the namespace "+m.ControlNamespace+" yourself")}, nil
	}
	m.project = theirs
	return m.checkGlobals(ctx, theirs)
}

// checkGlobals checks whether the runtime has the global projects of a project: without them
// the project would be refused.
func (m *move) checkGlobals(ctx context.Context, of *unstructured.Unstructured) ([]finding.Finding, error) {
	globals, err := project.LoadGlobals(ctx, m.Cluster.Dynamic, m.ControlNamespace)
	if err != nil {
		return nil, err
	}
	if err := globals.Problem(); err != nil {
		return []finding.Finding{obstacle(CodeProject, "the setting "+project.GlobalsKey+" of the runtime's ConfigMap argocd-cm cannot be read: "+err.Error(), "correct it, or remove it")}, nil
	}
	labelled := &v1alpha1.AppProject{ObjectMeta: metav1.ObjectMeta{Name: of.GetName(), Labels: of.GetLabels()}}
	for _, name := range globals.Of(labelled) {
		_, err := m.projects(m.ControlNamespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return []finding.Finding{obstacle(CodeProject, "its AppProject "+of.GetName()+" has the global project "+name+", which the runtime does not have", "make it in the namespace "+m.ControlNamespace)}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the AppProject %s/%s: %w", m.ControlNamespace, name, err)
		}
	}
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

// refuse returns the error of a move with obstacles.
func (m *move) refuse(found []finding.Finding) error {
	lines := make([]string, 0, len(found))
	for _, each := range found {
		lines = append(lines, each.String())
	}
	return fmt.Errorf("the Application %s cannot be moved, and nothing was changed: %s", m.From, strings.Join(lines, "; "))
}
