package appcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/cli/kubeflags"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
)

// installKinds says what to do where Argo's kinds are missing.
const installKinds = "kubectl apply --server-side -f charts/gitops-runtime/crds/"

// appCluster is a cluster whose Applications are asked for, with the rights of
// who asks.
type appCluster struct {
	*inspect.Inspector
	// namespace is where Applications are looked for.
	namespace string
}

func (c *appCluster) home() string { return c.namespace }

func (c *appCluster) close() { c.Close() }

func (c *appCluster) list(ctx context.Context, namespace, selector string) ([]*application, error) {
	apps, err := c.List(ctx, namespace, selector)
	return apps, c.explain(err)
}

// get reads an Application. One that is not where it was looked for is looked
// for elsewhere, to say where it is.
func (c *appCluster) get(ctx context.Context, place tracking.App) (*application, error) {
	app, err := c.Get(ctx, place)
	if apierrors.IsNotFound(err) && !kubeflags.MissingKind(err) {
		return nil, fmt.Errorf("there is no Application %s in the namespace %s%s", place.Name, place.Namespace, c.elsewhere(ctx, place))
	}
	return app, c.explain(err)
}

// elsewhere says in which namespaces there is an Application of a name.
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

func (c *appCluster) tree(ctx context.Context, app *application, warnings io.Writer) (*inspect.Node, error) {
	tree, err := c.Tree(ctx, app, leftOut(warnings))
	if err != nil {
		return nil, err
	}
	return tree.Root, nil
}

// leftOut tells what somebody may not list.
func leftOut(warnings io.Writer) func(kind, namespace string) {
	return func(kind, namespace string) {
		_, _ = fmt.Fprintf(warnings, "You may not list %s in the namespace %s: they are left out.\n", kind, namespace)
	}
}

func (c *appCluster) sync(ctx context.Context, app *application, sync *v1alpha1.SyncOperation) (v1alpha1.Info, error) {
	_, mark, err := c.Sync(ctx, app, sync, c.whoAmI(ctx))
	return mark, c.explain(err)
}

func (c *appCluster) rollback(ctx context.Context, app *application, given *rollbackFlags) (v1alpha1.Info, error) {
	sync, err := inspect.RollbackTo(app, given.id)
	if err != nil {
		return v1alpha1.Info{}, err
	}
	sync.Prune, sync.DryRun = given.prune, given.dryRun
	return c.sync(ctx, app, sync)
}

func (c *appCluster) terminate(ctx context.Context, app *application) error {
	_, err := c.Terminate(ctx, app)
	return c.explain(err)
}

func (c *appCluster) history(ctx context.Context, place tracking.App) (*application, error) {
	return c.get(ctx, place)
}

func (c *appCluster) wait(ctx context.Context, place tracking.App, done func(*application) (string, error)) (*application, error) {
	return c.Follow(ctx, place, done)
}

// whoAmI is the name that the API server knows us by, for the history. A server
// that does not tell is none the worse.
func (c *appCluster) whoAmI(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, kubeflags.RequestTimeout)
	defer cancel()
	response, err := c.Client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return ""
	}
	return response.Status.UserInfo.Username
}

// explain says what to do about an error of the API server.
func (c *appCluster) explain(err error) error {
	asked, ok := errors.AsType[*inspect.AccessError](err)
	if !ok {
		return err
	}
	where := "in the namespace " + asked.Namespace
	if asked.Namespace == metav1.NamespaceAll {
		where = "in all namespaces"
	}
	cause := asked.Err
	switch {
	case kubeflags.MissingKind(cause):
		return fmt.Errorf("the cluster has no Applications: install their definitions with %s", installKinds)
	case apierrors.IsForbidden(cause):
		return fmt.Errorf("you may not %s Applications %s: ask for that right on applications.%s, or choose another namespace with -n", asked.Verb, where, v1alpha1.Group)
	case apierrors.IsUnauthorized(cause):
		return fmt.Errorf("the API server at %s does not accept your credentials: renew the credentials of the kubeconfig, or choose another context", c.Config.Host)
	case utilnet.IsConnectionRefused(cause), errors.Is(cause, context.DeadlineExceeded):
		return fmt.Errorf("the API server at %s does not respond: is the cluster up, and is it the right --kubeconfig and --context? (%w)", c.Config.Host, cause)
	}
	return fmt.Errorf("%s Applications %s: %w", asked.Verb, where, cause)
}
