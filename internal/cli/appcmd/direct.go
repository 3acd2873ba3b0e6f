package appcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/cli/kubeflags"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/revert"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
)

// installKinds is the command that installs Argo's CRDs where they are missing.
const installKinds = "kubectl apply --server-side -f charts/gitops-runtime/crds/"

// appCluster is the backend of a cluster that the user can reach. Everything
// happens with the user's rights, so it needs no agent to respond, and shows
// only the objects that the user may see. Operations still need an agent that
// takes them up.
type appCluster struct {
	*inspect.Inspector
	// namespace is where Applications without a namespace are.
	namespace string
}

// home implements appBackend.
func (c *appCluster) home() string { return c.namespace }

// close implements appBackend.
func (c *appCluster) close() { c.Close() }

// list implements appBackend with a list of the API server; an empty namespace
// is all.
func (c *appCluster) list(ctx context.Context, namespace, selector string) ([]*application, error) {
	apps, err := c.List(ctx, namespace, selector)
	return apps, c.explain(err)
}

// get implements appBackend. For an Application that does not exist it searches
// other namespaces: a wrong namespace is the usual reason.
func (c *appCluster) get(ctx context.Context, place tracking.App) (*application, error) {
	app, err := c.Get(ctx, place)
	// A cluster without the kind also returns 404, and needs another hint.
	if apierrors.IsNotFound(err) && !kube.MissingKind(err) {
		return nil, fmt.Errorf("there is no Application %s in the namespace %s%s", place.Name, place.Namespace, c.elsewhere(ctx, place))
	}
	return app, c.explain(err)
}

// elsewhere returns the namespaces that have an Application of the name, as a
// hint for the error. A user who may not list all namespaces gets a general
// hint. It never fails: the hint must not replace the error.
func (c *appCluster) elsewhere(ctx context.Context, place tracking.App) string {
	ctx, cancel := context.WithTimeout(ctx, kubeflags.RequestTimeout)
	defer cancel()
	found, err := c.Applications(metav1.NamespaceAll).List(ctx, kube.Named(place.Name))
	if err != nil || len(found.Items) == 0 {
		return ": see slipway app list -A"
	}
	var namespaces []string
	for _, item := range found.Items {
		namespaces = append(namespaces, "-n "+item.GetNamespace())
	}
	return ", but there is one elsewhere: try " + strings.Join(namespaces, " or ")
}

// tree implements appBackend. It follows owner references from the
// Application's objects down to Pods.
func (c *appCluster) tree(ctx context.Context, app *application, warnings io.Writer) (*inspect.Node, error) {
	tree, err := c.Tree(ctx, app, leftOut(warnings))
	if err != nil {
		return nil, err
	}
	return tree.Root, nil
}

// leftOut returns a callback that warns about kinds that the user may not list:
// a tree without them would seem complete.
func leftOut(warnings io.Writer) func(kind, namespace string) {
	return func(kind, namespace string) {
		_, _ = fmt.Fprintf(warnings, "You may not list %s in the namespace %s: they are left out.\n", kind, namespace)
	}
}

// sync implements appBackend: it writes the operation into the Application,
// where the agent watches for it.
func (c *appCluster) sync(ctx context.Context, app *application, sync *v1alpha1.SyncOperation) (v1alpha1.Info, error) {
	_, mark, err := c.Sync(ctx, app, sync, c.whoAmI(ctx))
	return mark, c.explain(err)
}

// rollback implements appBackend as a sync to the revision and source of an
// entry of the history in the status.
func (c *appCluster) rollback(ctx context.Context, app *application, given *rollbackFlags) (v1alpha1.Info, error) {
	sync, err := inspect.RollbackTo(app, given.id)
	if err != nil {
		return v1alpha1.Info{}, err
	}
	sync.Prune, sync.DryRun = given.prune, given.dryRun
	return c.sync(ctx, app, sync)
}

// revert implements appBackend. The command writes to Git itself, with the
// credentials of repositories that the user may read.
func (c *appCluster) revert(ctx context.Context, app *application, given *rollbackFlags, warnings io.Writer) ([]revert.Written, error) {
	past, err := inspect.RollbackTo(app, given.id)
	if err != nil {
		return nil, err
	}
	book, err := c.Credentials(ctx, given.controlNamespace, func(text string) { _, _ = fmt.Fprintln(warnings, text) })
	if err != nil {
		return nil, err
	}
	// A temporary cache: the command must not touch the agent's.
	folder, err := os.MkdirTemp("", "slipway-revert-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	sources, err := source.New(source.Options{Folder: folder, Credentials: book})
	if err != nil {
		return nil, err
	}
	defer func() { _ = sources.Close() }()
	written, err := revert.Write(ctx, revert.Request{
		Sources: sources, Project: project.Unlimited(app.Spec.ProjectName()), App: app.Application, Past: past, PullRequest: given.pullRequest, User: c.whoAmI(ctx),
	})
	if err != nil || given.pullRequest {
		return written, err
	}
	_, err = c.Refresh(ctx, app, false)
	return written, c.explain(err)
}

// terminate implements appBackend. The agent ends the operation when it sees
// the request in the Application.
func (c *appCluster) terminate(ctx context.Context, app *application) error {
	_, err := c.Terminate(ctx, app)
	return c.explain(err)
}

// wait implements appBackend with a watch of the one object.
func (c *appCluster) wait(ctx context.Context, place tracking.App, done func(*application) (string, error)) (*application, error) {
	return c.Follow(ctx, place, done)
}

// whoAmI returns the name that the API server has for the user, for the
// history. Servers before SelfSubjectReview return none, and the operation is
// recorded without it: a missing name must not prevent a sync.
func (c *appCluster) whoAmI(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, kubeflags.RequestTimeout)
	defer cancel()
	response, err := c.Client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return ""
	}
	return response.Status.UserInfo.Username
}

// explain turns an error of the API server into one that names the next step
// for the user. Other errors, and nil, pass unchanged.
func (c *appCluster) explain(err error) error {
	denied, ok := errors.AsType[*inspect.AccessError](err)
	if !ok {
		return err
	}
	// The message names the scope, because rights often differ by namespace.
	where := "in the namespace " + denied.Namespace
	if denied.Namespace == metav1.NamespaceAll {
		where = "in all namespaces"
	}
	cause := denied.Err
	switch {
	// A 404 that names no object: the CRD is missing.
	case kube.MissingKind(cause):
		return fmt.Errorf("the cluster has no Applications: install their definitions with %s", installKinds)
	case apierrors.IsForbidden(cause):
		return fmt.Errorf("you may not %s Applications %s: request that permission on applications.%s, or choose another namespace with -n", denied.Verb, where, v1alpha1.Group)
	case apierrors.IsUnauthorized(cause):
		return fmt.Errorf("the API server at %s does not accept your credentials: renew the credentials of the kubeconfig, or choose another context", c.Config.Host)
	case utilnet.IsConnectionRefused(cause), errors.Is(cause, context.DeadlineExceeded):
		return fmt.Errorf("the API server at %s does not respond: is the cluster up, and is it the right --kubeconfig and --context? (%w)", c.Config.Host, cause)
	}
	return fmt.Errorf("%s Applications %s: %w", denied.Verb, where, cause)
}
